"""What runs on a node: reads /proc and the engines, and sends heartbeats.

Standard library only, CPython 3.9 and later.
"""
