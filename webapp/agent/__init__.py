"""The node agent: measures this machine and reports it to control planes.

Standard library only, CPython 3.9 and later. Read in this order:

    clock, lines     the three clocks and when it is time again; text for logs
    patience         asks what may never be answered
    machine          what the kernel and drivers say of this machine
    engines          which engines run here, and what they take
    sampler          the one place that puts a Measurement together
    identity         who the agent is
    connection       addresses, bounded connections and tokens of all requests
    sender           one heartbeat to one control plane; answers: what it says
    loop             heartbeats, for ever
    install          the agent as a service of systemd
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
    parent_death     programs that end with us
    process_group    a program with all that it starts
    monitor          the resource agent beside an engine
    run              `enginehouse run`
"""
