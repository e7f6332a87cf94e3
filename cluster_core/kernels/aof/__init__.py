"""Append-only logs in bulk: commands and keys as columns."""
