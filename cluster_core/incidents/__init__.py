"""Incidents with steps, and findings, from the rows of a replay."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
