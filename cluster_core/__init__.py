"""Protocol rules of Redis Cluster and Valkey as pure functions and state machines: no IO, clock or randomness."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
