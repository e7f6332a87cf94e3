"""Values of some of the keys that were drawn from a node, as DUMP answers them: few bytes at once, and not many a second."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from cluster_core.load.sampling import Draw, Part, Value
from cluster_core.wire.resp import RespError
from slotscope.servers.visits import Conversation, Question, Visit

SENT: Final = ("CLIENT NO-TOUCH", "DUMP", "PTTL")
"""What the node that values are read from is asked; a master only if it promises not to count that as use."""
VALUE_BYTES_MAX: Final = 256 << 10
"""Of a key that takes more the value is not read: to serialise it takes the server a millisecond."""
BYTES_A_SECOND: Final = 8 << 20
"""By MEMORY USAGE."""
VALUES_MAX: Final = 5000
"""Values of one part."""


def allows_values(sampled: Visit, *, is_master: bool) -> str:
    """Why no values may be read from *sampled*, which is asked not to count our reading as use; empty if they may.  Raises LinkError."""
    (reply,) = sampled.ask([("CLIENT", "NO-TOUCH", "ON")])
    if isinstance(reply, RespError) and is_master:
        return "it does not know CLIENT NO-TOUCH (Redis 7.2), so that to read values would change when its keys were last used"
    return ""


def with_values(sampled: Visit, part: Part, until_s: float) -> Conversation[tuple[Part, str]]:
    """*part* with the values of some of its draws, read until the monotonic clock shows *until_s*; and why there are none, if the server refuses."""
    drawn = random.sample(part.draws, min(len(part.draws), VALUES_MAX))
    unread = [draw for draw in drawn if draw.memory_bytes > VALUE_BYTES_MAX]
    values: list[Value] = []
    read = 0
    for some in _pieces([draw for draw in drawn if draw.memory_bytes <= VALUE_BYTES_MAX], sampled.together):
        begun_s = time.monotonic()
        if begun_s >= until_s:
            break
        replies = yield Question(sampled, [("DUMP", draw.key) for draw in some] + [("PTTL", draw.key) for draw in some])
        for reply in replies:
            if isinstance(reply, RespError) and not reply.text.startswith(("MOVED ", "ASK ", "TRYAGAIN ")):
                return part, reply.text
        values += _values(some, replies)
        read += len(some)
        sampled.rest_until(begun_s + sum(draw.memory_bytes for draw in some) / BYTES_A_SECOND)
    share = read / max(len(drawn) - len(unread), 1)
    return replace(part, values=values, unread=unread[: round(len(unread) * share)]), ""


def _pieces(draws: Sequence[Draw], together: int) -> Iterator[list[Draw]]:
    """*draws* as they are asked for at once: two commands each, no more bytes in all than of one large value."""
    some: list[Draw] = []
    size = 0
    for draw in draws:
        if some and (2 * len(some) >= together - 1 or size + draw.memory_bytes > VALUE_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(draw)
        size += draw.memory_bytes
    if some:
        yield some


def _values(draws: Sequence[Draw], replies: Sequence[Any]) -> Iterator[Value]:
    """Those that are still there."""
    now_ms = time.time_ns() // 1_000_000
    for draw, payload, left_ms in zip(draws, replies[: len(draws)], replies[len(draws) :], strict=True):
        if isinstance(payload, bytes) and isinstance(left_ms, int):
            yield Value(draw.key, payload, now_ms + left_ms if left_ms >= 0 else -1)
