"""Compiled loops (numba) over whole columns and buffers."""
