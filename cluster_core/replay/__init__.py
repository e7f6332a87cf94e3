"""Replay of one observer: its view over time, from sent and received messages."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
