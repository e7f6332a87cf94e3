"""A plan carried out on a live cluster: reads, refuses, moves, waits, undoes."""
