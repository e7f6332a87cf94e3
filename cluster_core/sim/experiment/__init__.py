"""Grids of simulated runs and their outcomes."""
