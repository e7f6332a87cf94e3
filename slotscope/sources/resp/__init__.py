"""Captures of client ports: as rows, and as the history of replication."""
