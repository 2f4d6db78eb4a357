"""Which engines run on this node, which processes belong to each, and what they take.

Read in this order:

    pidstat          /proc/<pid>/stat and its neighbours: parse
    processes        one fast pass over all processes; stat_files keeps their files open
    kinds            the table of engines; command_line reads by it: kind, model, port
    command_lines    those of all processes, each read once
    declared         engines that the operator names; leaders and sockets find them
    discovery        which engines there are on this node
    membership       which processes belong to which engine
    cgroups          cgroups of engines and container_names; own_cgroups: which of them are an engine's own
    usage            CPU time between two passes
    proportional     memory with each shared page counted once
    report           all of it -> what is reported of each engine
    metrics          what engines say of themselves: metric_names is the table, scrape fetches, exposition reads,
                     token_rates counts what was made between two readings
"""
