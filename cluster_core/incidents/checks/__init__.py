"""Checks of invariants on votes, claims, connections and views; violations become findings."""
