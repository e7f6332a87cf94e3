"""Simulated servers around a node: data, replication, commands, slot migration."""
