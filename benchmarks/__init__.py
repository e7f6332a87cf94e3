"""Benchmarks of Slotscope against other tools, C loops and the machine's own limits.

``python -m benchmarks --help``.
"""
