"""RDB dumps in bulk: the walk over their bytes, keys and sizes as columns."""
