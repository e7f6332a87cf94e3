"""Which slot a key belongs to, sets of slots, and who owns which slot."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
