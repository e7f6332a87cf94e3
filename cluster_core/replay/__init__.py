"""Replay of one observer: from what a node sent and received to what it believed, and when."""
