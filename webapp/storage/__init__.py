"""What survives a restart: nodes with their last measurement, and their recent samples, in one SQLite file.

Read in this order; each module imports only those above it:

    samples       a measurement's numbers in one blob
    waiting       what was heard and is not yet written
    database      one SQLite file: locked, opened, set aside when damaged
    ledger        what one commit writes
    archive       what was written, read back
    store         all of these
"""
