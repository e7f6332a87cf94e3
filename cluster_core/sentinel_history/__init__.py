"""Replay of sentinels from captures, logs and polls; entry point: `fold`."""
