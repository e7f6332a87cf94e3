"""Stored plans, and the loads of snapshots for plans."""
