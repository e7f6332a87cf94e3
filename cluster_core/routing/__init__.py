"""Where a command goes: its keys, their slot, and what a node answers to a client that asks it."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
