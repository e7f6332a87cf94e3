"""Batch twins of plain core functions, compiled by numba where it is installed."""
