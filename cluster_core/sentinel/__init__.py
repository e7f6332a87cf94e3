"""Sentinel: who watches a master and its replicas, agrees that it is down, elects a leader and fails over."""

from cluster_core.door import open_door

__all__, __getattr__, __dir__ = open_door(__name__)
