"""Append-only logs: as rows, as units of work, as load and as state."""
