"""Append-only files: the manifest of a multi-part log, and the commands in its files."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
