"""What one cluster node believes, driven by messages and time: a sans-IO machine and the decisions beside it."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
