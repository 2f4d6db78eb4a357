"""Everything that is asked of a Prometheus-compatible server: charts, the whole fleet, alerts.

Read in this order; each module imports only those above it:

    promql        PromQL as text
    bounded_http  HTTP connections that end in time
    answers       what a server said, or what came in its place
    session       the way to a server
    queries       queries and their answers
    vocabulary    which PromQL gives each metric: our own words
    words         the words of node_exporter and its like
    engine_words  the words of the engines themselves
    estate        a vocabulary made of these, and of the operator's rules
    history       the history of charts
    copies        last good copies of what a slow source says
    shared_history    one answer for all viewers
    fleet         every node with its engines
    alerts        alerts that fire, by node and engine
    connection    all of this, built from the settings
    managed       a Prometheus of our own
"""
