"""Append-only files: the manifest of a multi-part log, and the commands in its files."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
