"""Execution of a plan on a live cluster: checks, moves, waits, rollback."""
