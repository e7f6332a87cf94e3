"""Replication between a master and its replicas: identities, offsets, PSYNC, handshakes, failover; and what a capture shows of them."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
