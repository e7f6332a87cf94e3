"""Simulated clusters of real nodes under a virtual clock: network, faults, clients, checkers (docs/simulator.md)."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
