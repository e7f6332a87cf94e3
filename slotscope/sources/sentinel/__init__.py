"""Captures, logs and polls of sentinels as evidence, and the task that replays them."""
