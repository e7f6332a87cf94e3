"""Protocol rules of Redis Cluster and Valkey as pure functions and state machines: no IO, clock or randomness."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
