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
UPPER_BITS: Final = 27
UPPER_MASK: Final = (1 << UPPER_BITS) - 1


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
def ready(own: NDArray[np.uint32], draws: NDArray[np.uint32]) -> None:
    """Temper the first word of each pair: the upper bits of what `draw` gives, which are nearly always enough for `place_of`."""
    for k in range(WORDS // 2):
        draws[k] = temper(own[2 * k]) >> 5


@borrowing(inline="always")
def temper(word: int) -> int:
    """What is drawn for a word of the state."""
    one = np.uint32(word)
    two = one ^ (one >> np.uint32(11))
    three = two ^ ((two << np.uint32(7)) & np.uint32(0x9D2C5680))
    four = three ^ ((three << np.uint32(15)) & np.uint32(0xEFC60000))
    return four ^ (four >> np.uint32(18))


@borrowing()
def draw_word(own: NDArray[np.uint32], draws: NDArray[np.uint32]) -> int:
    """32 bits by chance from the state *own*, uint32[625]: `getrandbits(32)`."""
    if own[WORDS] >= WORDS:
        twist(own)
        ready(own, draws)
    at = np.int64(own[WORDS])
    own[WORDS] = at + 1
    return np.int64(temper(own[at]))


@borrowing()
def draw(own: NDArray[np.uint32], draws: NDArray[np.uint32]) -> float:
    """A number from 0 to 1 from the state *own*, with its *draws* made `ready`: `random()` with its 53 bits."""
    high = draw_word(own, draws) >> 5
    low = draw_word(own, draws) >> 6
    return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)


@borrowing(inline="always")
def place_of(own: NDArray[np.uint32], draws: NDArray[np.uint32], at: int, size: int) -> int:
    """`int(random() * size)` of the words at *at*, an even place; the lower word is looked at only if it may decide."""
    product = np.int64(draws[at >> 1]) * size
    if (product & UPPER_MASK) + size <= UPPER_MASK:
        return product >> UPPER_BITS
    high, low = np.int64(temper(own[at]) >> 5), np.int64(temper(own[at + 1]) >> 6)
    return int((high * 67108864.0 + low) * (1.0 / 9007199254740992.0) * size)
