"""Packet captures: containers, link layers, and the cluster-bus messages inside."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
