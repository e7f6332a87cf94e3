"""A whole cluster node: the gossip machine, everything that a node does by itself, and what clients may ask of it."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
