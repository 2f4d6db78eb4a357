"""Enginehouse: how busy each node of an LLM fleet is, and which engine makes it so.

Read in this order; each module imports only what stands above it:

    fields        fields that describe themselves, and their tolerant reader
    addresses     hosts and IP addresses as they are written
    measurement   what one node reported at one moment
    snapshot      resource_snapshot_v1, the other wire
    heartbeat     the message that carries a measurement
    schema        the same messages read in one pass, where nothing is wrong with them
    metrics       the table: one row a metric, one row a chart
    access        tokens, and how often a wrong one may be tried
    embedding     links that open one page
    listening     whether this process listened
    notes         what admins note on nodes
    nodes         a node as everyone sees it, and the rule of its state
    transit       how long a heartbeat was under way
    record        what is known of one node
    registry      the fleet now
    descriptions  what the messages of the instance protocol hold
    instance      an engine that registered itself, and the rule that says whether it lives
    instances     all of them
    resource      an instance's resources in the protocol's normal form
    pool          all instances as one pool
    fleet         instances and nodes as one fleet
    summary       totals that name what they leave out
    placement     where there is room for one more engine
    samples       a measurement's numbers in one blob
    waiting       what was heard and is not yet written
    database      one SQLite file: locked, opened, set aside when damaged
    ledger        what one commit writes
    archive       what was written, read back
    store         what survives a restart: all of these
    history       what the charts ask for
    embedded      the history in the store
    extent        where a chart's lines begin and end, in words
    ranges        grids of times that viewers share
    promql        PromQL as text
    boundedhttp   HTTP connections that end in time
    promanswer    what a Prometheus-compatible server said, or what stood in its place
    promhttp      the way to such a server
    promapi       queries and their answers
    vocabulary    which PromQL gives each metric: our own words
    words         the words of node_exporter and its like
    engine_words  the words of the engines themselves
    estate        a vocabulary made of these, and of the operator's rules
    prometheus    the history from Prometheus
    copies        last good copies of what a slow source says
    shared_history    one answer for all viewers
    prometheus_fleet  the fleet from Prometheus
    alerts        alerts that fire, by node and engine
    past          the fleet as it was, rebuilt from the store
    palette       the colour of a model
    exposition    the fleet as Prometheus text
    telemetry     what the control plane tells of itself
    charts        a chart and its series as a plotly figure
    numbers       a chart's numbers as tables
    models        what each model takes of the fleet
    model_order   in which order a reader sees them
    records       nodes, engines and models as flat records
    api           the table of the HTTP API
    spreadsheet   tables as CSV
    report        charts for a file that needs no server
    settings      how a setting is read from flag, environment and file
    config        which settings there are
    connection    all that is asked of Prometheus, built from the settings
    managed_prometheus  a Prometheus of our own
    app           builds all of the above and hands it to the views
    tls           the certificate of the web server
    http_messages requests read out of bytes, answers written as bytes
    channels      one connection of the web server
    serving       the web server
    cli           the commands

`agent` runs on the nodes with the standard library alone; `views` is the only package that knows Flask.
"""

__version__ = "0.1.0"
