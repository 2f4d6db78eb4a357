"""What readers ask of the whole fleet: totals, what is wrong, which nodes, which models, where there is room.

Read in this order; each module imports only those above it:

    summary       totals that name what they leave out
    gauges        shares of something limited, and when they call for attention
    memory        where a node's memory is
    placement     where there is room for one more engine
    paging        long tables and lists, a page at a time
    sorting       tables that are sorted by their columns
    selection     which nodes a reader sees, and in which order
    concerns      what is wrong now
    events        what changed in the last hour
    looks         the same of a fleet that doesn't report here
    trends        the last hour of CPU and RAM, for sparklines
    asked_trends  the same from a Prometheus
    models        what each model takes of the fleet
    model_selection  which of them a reader sees, and in which order
    records       nodes, engines and models as flat records
    spreadsheet   tables as CSV
"""
