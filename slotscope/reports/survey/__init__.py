"""Survey of a live cluster: figures, and their presentation."""
