"""Packet captures: containers, link layers, and the cluster-bus messages inside."""
