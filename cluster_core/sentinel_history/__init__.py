"""Replay of sentinels from captures, logs and polls; the entry is `fold`."""
