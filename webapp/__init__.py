"""Enginehouse: how busy each node of an LLM fleet is, and which engine makes it so.

Read in this order; each module imports only what stands above it:

    fields        fields that describe themselves, and their tolerant reader
    measurement   what one node reported at one moment
    heartbeat     the message that carries a measurement
    metrics       the table: one row a metric, one row a chart
    access        tokens, and how often a wrong one may be tried
    embedding     links that open one page
    listening     whether this process listened
    notes         what admins note on nodes
    nodes         a node as everyone sees it, and the rule of its state
    transit       how long a heartbeat was under way
    record        what is known of one node
    registry      the fleet now
    summary       totals that name what they leave out
    samples       a measurement's numbers in one blob
    waiting       what was heard and is not yet written
    database      one SQLite file: locked, opened, set aside when damaged
    ledger        what one commit writes
    archive       what was written, read back
    store         what survives a restart: all of these
    history       what the charts ask for
    embedded      the history in the store
    palette       the colour of a model
    exposition    the fleet as Prometheus text
    telemetry     what the control plane tells of itself
    charts        a chart and its series as a plotly figure
    settings      how a setting is read from flag, environment and file
    config        which settings there are
    app           builds all of the above and hands it to the views
    serving       the web server and its bounds
    cli           the commands

`agent` runs on the nodes with the standard library alone; `views` is the only package that knows Flask.
"""

__version__ = "0.1.0"
