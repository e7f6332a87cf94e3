"""The generator of CPython's `random.Random`, for arrays: the same numbers in the same order from the same state.

A state is 624 words of the Mersenne Twister and the place of the next one (Matsumoto and Nishimura 1998, mt19937ar.c;
`Random.getstate()[1]`).
"""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from cluster_core.kernels.compiled import borrowing

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS: Final = 624
STATE: Final = WORDS + 1
SHIFT: Final = 397
UPPER: Final = 0x80000000
LOWER: Final = 0x7FFFFFFF
MATRIX: Final = 0x9908B0DF


@borrowing()
def twist(own: NDArray[np.uint32]) -> None:
    """Make the next 624 words."""
    upper, lower, matrix, one = np.uint32(UPPER), np.uint32(LOWER), np.uint32(MATRIX), np.uint32(1)
    for k in range(WORDS - SHIFT):
        word = (own[k] & upper) | (own[k + 1] & lower)
        own[k] = own[k + SHIFT] ^ (word >> one) ^ (matrix * (word & one))
    for k in range(WORDS - SHIFT, WORDS - 1):
        word = (own[k] & upper) | (own[k + 1] & lower)
        own[k] = own[k + SHIFT - WORDS] ^ (word >> one) ^ (matrix * (word & one))
    word = (own[WORDS - 1] & upper) | (own[0] & lower)
    own[WORDS - 1] = own[SHIFT - 1] ^ (word >> one) ^ (matrix * (word & one))
    own[WORDS] = 0


@borrowing()
def ready(own: NDArray[np.uint32], doubles: NDArray[np.float64]) -> None:
    """Temper the words in pairs into the numbers that `draw` gives."""
    for k in range(WORDS // 2):
        doubles[k] = (temper(own[2 * k]) >> 5) * 67108864.0 + (temper(own[2 * k + 1]) >> 6)
    for k in range(WORDS // 2):
        doubles[k] *= 1.0 / 9007199254740992.0


@borrowing(inline="always")
def temper(word: int) -> int:
    """What is drawn for a word of the state."""
    one = np.uint32(word)
    two = one ^ (one >> np.uint32(11))
    three = two ^ ((two << np.uint32(7)) & np.uint32(0x9D2C5680))
    four = three ^ ((three << np.uint32(15)) & np.uint32(0xEFC60000))
    return four ^ (four >> np.uint32(18))


@borrowing()
def draw_word(own: NDArray[np.uint32], doubles: NDArray[np.float64]) -> int:
    """32 bits by chance from the state *own*, uint32[625]: `getrandbits(32)`."""
    if own[WORDS] >= WORDS:
        twist(own)
        ready(own, doubles)
    at = np.int64(own[WORDS])
    own[WORDS] = at + 1
    return np.int64(temper(own[at]))


@borrowing()
def draw(own: NDArray[np.uint32], doubles: NDArray[np.float64]) -> float:
    """A number from 0 to 1 from the state *own*, with its *doubles* made `ready`: `random()` with its 53 bits."""
    at = np.int64(own[WORDS])
    if at >= WORDS:
        twist(own)
        ready(own, doubles)
        at = np.int64(0)
    if at & 1:
        high = draw_word(own, doubles) >> 5
        low = draw_word(own, doubles) >> 6
        return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)
    own[WORDS] = at + 2
    return doubles[at >> 1]
