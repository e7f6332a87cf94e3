"""Simulated sentinels beside simulated clusters."""
