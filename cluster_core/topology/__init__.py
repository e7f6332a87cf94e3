"""Nodes of a cluster and the text and RESP forms in which servers describe them."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
