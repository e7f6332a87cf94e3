"""Replay of one observer: its view over time, from sent and received messages."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
