"""Topologies: nodes, and readers of CLUSTER NODES, SHARDS, SLOTS and nodes.conf."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
