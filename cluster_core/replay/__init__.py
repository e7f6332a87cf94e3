"""Replay of one observer: from what a node sent and received to what it believed, and when."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
