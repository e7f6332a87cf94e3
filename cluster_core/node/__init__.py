"""A complete cluster node without IO: gossip, timers, elections, client commands (docs/design/node.md)."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
