"""The node agent: measures this machine and reports it to control planes.

Standard library only, CPython 3.9 and later. Read in this order:

    clock          the three clocks
    proc           files of /proc that describe the machine: read, and parse
    pidstat        /proc/<pid>/stat and its neighbours: parse
    cpu, memory    counters and tables -> what is reported
    processes      one fast pass over all processes
    engine_kinds   the table of engines: command line -> kind, model, port
    engines        which engines there are on this node
    membership     which processes belong to which engine
    usage          cores and memory of each engine
    disks, host    file systems; what hardly changes
    sampler        the one place that puts a Measurement together
    sender         one heartbeat to one control plane
    loop           heartbeats, for ever
    command        flags, environment and file -> a running agent
"""
