"""Invariants of votes, claims, connections and beliefs, and the findings where they do not hold."""
