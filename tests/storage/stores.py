"""What is put into a store and read back."""

from webapp.measurement import Load, Measurement


def measured(node="cpu-07", cpu=43.2, **parts):
    return Measurement(node, load=Load(cpu_percent=cpu, cpus=64), **parts)


def times(store, node="cpu-07", start=0.0, end=1e12):
    return [at for rows in store.archive.rows(node, start, end) for at in rows.times]
