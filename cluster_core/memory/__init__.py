"""What a key costs in a server's memory, from its record in a dump: `MEMORY USAGE key SAMPLES 0` without the server."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
