"""A chart and an answer of a history as something to look at: a plotly figure, tables, a file, an explanation.

Read in this order; each module imports only those above it:

    palette       the colours that there are
    colours       which model has which
    axis          units, upper ends and ticks
    lines         what is drawn of an answer
    drawing       the pieces of a figure
    figure        the whole of it
    changes       what is new of a figure that a browser has
    numbers       the same as tables
    explanations  what exactly a chart shows
    report        charts for a file that needs no server
"""
