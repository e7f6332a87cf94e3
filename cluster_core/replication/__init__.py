"""Replication between a master and its replicas: identities, offsets, PSYNC, handshakes, failover; and what a capture shows of them."""
