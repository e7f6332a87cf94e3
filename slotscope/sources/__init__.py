"""Spark Python Data Sources and the file access below them: they open files and yield Arrow batches; parsing is the core's."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
