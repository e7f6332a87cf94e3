"""Bus captures in bulk: packets, streams and messages as columns."""
