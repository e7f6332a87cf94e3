"""Memory model: `MEMORY USAGE key SAMPLES 0` in bytes, from the record of a key in a dump."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
