"""Simulated clusters of real nodes under a virtual clock: network, faults, clients, checkers (docs/simulator.md)."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
