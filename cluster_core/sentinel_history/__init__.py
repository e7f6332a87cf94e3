"""What sentinels believed and did, put together from captures, logs and polls; `fold` is the entry."""
