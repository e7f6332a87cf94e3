"""Codecs of the network: cluster bus, RESP, TCP streams."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
