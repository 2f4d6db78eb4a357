"""Enginehouse: how busy each node of an LLM fleet is, and which engine makes it so.

Read in this order; each imports only those above it. Packages say the same of their modules:

    fields        fields that describe themselves, and their tolerant reader
    addresses     hosts and IP addresses as they are written
    json_object   JSON that somebody else wrote
    whole_file    small files that are written whole
    unseen        characters that nobody sees, by their numbers
    measurement   what one node reported at one moment
    snapshot      resource_snapshot_v1, the other wire
    heartbeat     the message that carries a measurement
    schema        the same messages read in one pass, where nothing is wrong with them
    lens, metrics the table: one row a metric, one row a chart
    formats       numbers as people read them
    kinds, settings, config
                  which settings there are, and how they are read from flag, environment and file
    logs          the log
    access        tokens, and how often a wrong one may be tried
    embedding     links that open one page
    fleet         the fleet now
    storage       what survives a restart
    history       what the charts ask for, and where it may come from
    child         programs that we start and stop
    prometheus    all that is asked of Prometheus
    charts        a chart and its series as a plotly figure, as tables, as a file
    overview      what readers ask of the whole fleet
    exposition    the fleet as Prometheus text
    telemetry     what the control plane reports about itself
    api           the table of the HTTP API
    zipapp, fingerprint
                  the agent as one file; which build runs
    demo          a made-up fleet
    enquiry, doctor
                  checks of the whole path, from a node to the pages
    views         pages, fragments and machines' endpoints
    app           the web application: all of the above handed to the views
    control_plane everything that runs in one process, built from the settings
    server        the web server
    cli           the commands

`agent` runs on the nodes with the standard library alone; `views` is the only package that knows Flask.
"""

__version__ = "0.1.0"
