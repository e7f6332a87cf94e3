"""A complete cluster node without IO: gossip, timers, elections, client commands (docs/design/node.md)."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
