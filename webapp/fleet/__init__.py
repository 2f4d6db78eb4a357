"""The fleet now: which nodes and engines there are, what each said last, and for how long it has been silent.

Read in this order; each module imports only those above it:

    listening     whether this process listened
    notes         what admins note on nodes
    nodes         a node as everyone sees it, and the rule of its state
    transit       how long a heartbeat was under way
    record        what is known of one node
    verdict       what becomes of a heartbeat
    refusals      why a heartbeat is not taken in
    registry      all nodes
    descriptions  what the messages of the instance protocol hold
    instance      an engine that registered itself, and the rule that says whether it lives
    instances     all of them
    machine       a resource snapshot as what a heartbeat would have carried
    resource      an instance's resources in the protocol's normal form
    pool          all instances as one pool
    joined        instances and nodes as one fleet
"""
