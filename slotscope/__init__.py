"""Public interface for notebooks and jobs.

- `key_slot(key)`: slot (0 to 16383) of one key.
- `key_slots(column)`: slots of an Arrow column, as a uint16 array.
- `register(spark)`: data sources ``redis-rdb``, ``redis-aof`` and ``cluster-bus``.
- `connect(root)`: tables and views of a root in DuckDB, without a JVM.

Roots are folders or URIs.  Bad roots raise `slotscope.runtime.errors.InputError`.
"""

from cluster_core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
