"""Keys of one node drawn at random and measured; where they are few, all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from cluster_core.load.sampling import Draw, Part, biggest, most_used
from cluster_core.wire.resp import RespError
from slotscope.servers.node_link import LinkError, Word
from slotscope.servers.visits import Visit

SENT: Final = ("SELECT", "READONLY", "RANDOMKEY", "SCAN", "MEMORY USAGE", "OBJECT FREQ", "TYPE")
"""What the node that keys are drawn from is asked; none of them changes a key's age or counter."""
SCAN_COUNT: Final = 10
NAMED_MAX: Final = 20
"""Keys of a part whose types are asked."""
MARGIN: Final = 1.5
"""All keys are measured where that takes, by the rate, so much less than the time that is left."""


class RefusedError(Exception):
    """The server does not let us draw or measure."""


def draw_parts(master: Visit, sampled: Visit, wanted: int, until_s: float, rate: float) -> tuple[list[Part], str]:
    """Draw up to *wanted* keys of *master* from *sampled*, itself or a replica, until the monotonic clock shows *until_s*.

    Returns a part for each database, and why there is not one for all of them.
    """
    parts: list[Part] = []
    keys = master.databases
    left = sum(keys.values())
    lfu = "lfu" in sampled.checkup.info.get("maxmemory_policy", "")
    try:
        if sampled is not master and sampled.checkup.topology is not None:
            _whole(sampled.ask([("READONLY",)]))
        for number, count in sorted(keys.items(), key=lambda one: one[1]):
            if len(keys) > 1 or number:
                _whole(sampled.ask([("SELECT", number)]))
            now_s = time.monotonic()
            share = count / left
            end_s = now_s + (until_s - now_s) * share
            each = 3 if lfu else 2
            whole = count <= wanted * share and count * each * MARGIN <= (end_s - now_s) * rate
            draws = _all(sampled, lfu, end_s) if whole else _some(sampled, lfu, int(wanted * share), end_s)
            if not draws:
                return parts, "there was no time to draw keys: give it more with --seconds or --rate"
            parts.append(_with_types(sampled, Part(str(master.address), str(sampled.address), count, draws, whole)))
            left -= count
            wanted -= len(draws)
    except (LinkError, RefusedError) as error:
        return parts, str(error)
    return parts, ""


def _whole(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, RespError):
            raise RefusedError(reply.text)
    return replies


def _some(node: Visit, lfu: bool, wanted: int, until_s: float) -> list[Draw]:
    """Draw with replacement: a key that comes twice counts twice."""
    draws: list[Draw] = []
    while len(draws) < max(wanted, 1) and time.monotonic() < until_s:
        named = [key for key in _whole(node.ask([("RANDOMKEY",)] * node.together)) if isinstance(key, bytes)]
        if not named:
            break
        draws += _measured(node, named, lfu)
    return draws


def _all(node: Visit, lfu: bool, until_s: float) -> list[Draw]:
    """Every key once; nothing if there was not the time for it, since what a scan meets first is no sample."""
    found: dict[bytes, Draw] = {}
    cursor: Word = 0
    while time.monotonic() < until_s:
        (reply,) = _whole(node.ask([("SCAN", cursor, "COUNT", SCAN_COUNT)]))
        cursor, named = reply
        found.update((draw.key, draw) for draw in _measured(node, [key for key in named if key not in found], lfu))
        if cursor in (b"0", 0):
            return list(found.values())
    return []


def _measured(node: Visit, named: Sequence[bytes], lfu: bool) -> Iterator[Draw]:
    """Memory and LFU counter of keys; one that is gone meanwhile, or on its way to another node, is left out."""
    sizes = node.ask([("MEMORY", "USAGE", key) for key in named])
    counters = node.ask([("OBJECT", "FREQ", key) for key in named]) if lfu else [None] * len(named)
    for size in sizes:
        if isinstance(size, RespError) and not size.text.startswith(("MOVED ", "ASK ", "TRYAGAIN ")):
            raise RefusedError(size.text)
    for key, size, counter in zip(named, sizes, counters, strict=True):
        if isinstance(size, int):
            yield Draw(key, size, counter if isinstance(counter, int) else None)


def _with_types(node: Visit, part: Part) -> Part:
    """*part* with the types of the keys that may be shown by themselves."""
    keys = list({draw.key for _, draw in (*biggest([part], NAMED_MAX), *most_used([part], NAMED_MAX))})
    replies = node.ask([("TYPE", key) for key in keys])
    types = {key: reply for key, reply in zip(keys, replies, strict=True) if isinstance(reply, str)}
    return replace(part, draws=[draw._replace(type=types.get(draw.key, "")) for draw in part.draws])
