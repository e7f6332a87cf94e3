"""Chance for the compiled walks: a 32-bit shift register and a table of logarithms, the same on every machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cluster_core.kernels.compiled import njit

Floats = Any
Integers = Any
"""Arrays of float64 and int64."""

CHUNK = 1024
"""Steps of a walk between two looks at its temperature and prices."""
DRAWS = 1024
DICE = np.array([round(-math.log((i + 0.5) / DRAWS), 6) for i in range(DRAWS)])
"""-log of evenly spaced chances."""


@njit()
def step(x: int) -> int:
    """Return the number after *x* of a 32-bit xorshift sequence (Marsaglia 2003)."""
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    return x
