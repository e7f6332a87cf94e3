"""What happened to a cluster, told from the rows of a replay: incidents with their steps, and findings."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
