"""What it would save to compress values before they are stored: some of them compressed by zstd, and how far that is from all of them."""

from __future__ import annotations

import math
from typing import NamedTuple

SAMPLED_MIN = 30
"""Of fewer values than this, others being there, nothing is said."""
VALUE_BYTES_MAX = 1 << 16
"""Of a larger value the beginning is compressed, and the rest taken for the same; none of them is left to chance."""
ERRORS_95 = 1.96
"""Standard errors to either side within which the truth is in 95 of 100 samples."""
UNIT_BITS = 4
"""Squares are of units of 16 bytes, so that their sums stay within 64 bits."""


class TextSums(NamedTuple):
    """Of values that are worth compressing: how many, and bytes in memory.  Of those that were compressed: how many, and weighted by how many each
    stands for, bytes in memory and what they save; squares and products of both, in units, weighted by what their variances weigh.
    """

    texts: int = 0
    text_bytes: int = 0
    sampled: int = 0
    sampled_bytes: int = 0
    saved_bytes: int = 0
    saved_squares: int = 0
    products: int = 0
    bytes_squares: int = 0


class Estimate(NamedTuple):
    """What compression saves of all texts, and half the range that holds the truth in 95 of 100 samples."""

    saved_bytes: int
    error_bytes: int


def estimate(sums: TextSums) -> Estimate | None:
    """Return what compressing all texts saves, by the share that the compressed ones save; None where they are too few to say."""
    if not sums.sampled_bytes or sums.sampled < min(SAMPLED_MIN, sums.texts):
        return None
    share = sums.saved_bytes / sums.sampled_bytes
    scale = sums.text_bytes / sums.sampled_bytes
    squares = sums.saved_squares - 2 * share * sums.products + share**2 * sums.bytes_squares
    error = ERRORS_95 * scale * math.sqrt(max(squares, 0)) * (1 << UNIT_BITS)
    return Estimate(round(share * sums.text_bytes), math.ceil(error))
