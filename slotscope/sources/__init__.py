"""Spark Python Data Sources and the file access below them: they open files and yield Arrow batches; parsing is the core's."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
