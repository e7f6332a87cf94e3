"""Which slots should move where: the problem, the plan, its proof, its order and its commands, as plain values."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
