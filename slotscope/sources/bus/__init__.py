"""Captures of the cluster bus: files in the order of their packets, evidence by process, rows of belief."""
