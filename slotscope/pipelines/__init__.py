"""Pipelines: from the options of a command to its tables."""
