"""Whole clusters of the real state machine under a virtual clock: network, faults, clients, checkers (docs/simulator.md)."""
