"""The node agent: measures this machine and reports it to control planes.

Standard library only, CPython 3.9 and later. Read in this order:

    clock, lines     the three clocks; text for logs
    patience         asks what may never be answered
    proc             files of /proc that describe the machine: read, and parse
    pidstat          /proc/<pid>/stat and its neighbours: parse
    cpu, memory      counters and tables -> what is reported
    processes        one fast pass over all processes; stat_files keeps their files open
    engine_kinds     the table of engines; command_line reads by it: kind, model, port
    command_lines    those of all processes, each read once
    declared         engines that the operator names; leaders and sockets find them
    engines          which engines there are on this node
    membership       which processes belong to which engine
    engine_cgroup    cgroups of engines and container_names; own_cgroups: which of them are an engine's own
    usage            CPU time between two passes
    proportional     memory with each shared page counted once
    engine_report    all of it -> what is reported of each engine
    engine_metrics   what engines say of themselves
    disks, network, pressure, cgroup, gpu, host
                     the rest of the machine
    sampler          the one place that puts a Measurement together
    sender           one heartbeat to one control plane; answers: what it says
    loop             heartbeats, for ever
    command          flags, environment and file -> a running agent

The other commands that run on nodes:

    arguments        flags, environment and file
    stopping         signals as something that can be read
    client           JSON over HTTP, bounded
    resources        cheap readings each second
    resource_snapshot, http_server
                     how they are written, and answered
    resource_agent   `enginehouse resource-agent`
    report           `enginehouse report`
    registration     an engine's place in a control plane
    process_group    a program with all that it starts
    monitor          the resource agent beside an engine
    run              `enginehouse run`
"""
