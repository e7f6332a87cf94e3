"""What Redis Cluster and Valkey do, as pure functions and state machines: no IO, no clock, no randomness of its own."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
