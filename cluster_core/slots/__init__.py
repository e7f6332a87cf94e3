"""Slots: slot of a key, sets of slots, owners."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
