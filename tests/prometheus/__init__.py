"""Against Prometheus and its like: real servers on loopback, and hostile ones."""
