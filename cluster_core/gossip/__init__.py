"""Cluster state in the view of one node, updated by bus messages and time."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
