"""Memory model: `MEMORY USAGE key SAMPLES 0` in bytes, from the record of a key in a dump."""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
