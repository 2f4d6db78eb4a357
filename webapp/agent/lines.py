"""Text from elsewhere, fit for a log."""

from __future__ import annotations


def one_line(text: str, longest: int = 200) -> str:
    """Printable characters on one line; what a log's reader could be fooled with becomes a blank.

    >>> one_line("vllm\\nERROR \\x1b[31m")
    'vllm ERROR  [31m'
    """
    return "".join(character if character.isprintable() else " " for character in text[:longest])
