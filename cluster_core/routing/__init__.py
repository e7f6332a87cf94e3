"""Routing of commands: keys, slot, and the answer of a node (MOVED, ASK, TRYAGAIN …)."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
