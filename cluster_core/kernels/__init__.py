"""What is done to whole columns and buffers at once, compiled by numba."""
