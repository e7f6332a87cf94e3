"""Keys of one node drawn at random and measured; where they are few, all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cluster_core.load.sampling import Draw, Part, biggest, longest_idle, most_used
from cluster_core.wire.resp import RespError
from slotscope.servers.node_link import LinkError, Word
from slotscope.servers.values import allows_values, with_values
from slotscope.servers.visits import Conversation, Question, Visit

SENT: Final = ("SELECT", "READONLY", "RANDOMKEY", "SCAN", "MEMORY USAGE", "TYPE", "OBJECT FREQ", "OBJECT IDLETIME")
"""What the node that keys are drawn from is asked, and their master (SELECT, OBJECT); none of them changes a key's age or counter."""
ELEMENTS: Final = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "stream": "XLEN"}
"""What tells the elements of each type; asked only where the node promises not to count that as use."""
SCAN_COUNT: Final = 10
NAMED_MAX: Final = 20
"""Keys of a part whose types are asked."""
VALUES_SHARE: Final = 0.3
"""Of the time, for values, where they are read."""
MARGIN: Final = 1.5
"""All keys are measured where that takes, by the rate, so much less than the time that is left."""


class RefusedError(Exception):
    """The server does not let us draw or measure."""


def draw_parts(
    master: Visit, sampled: Visit, wanted: int, until_s: float, rate: float, *, in_depth: bool = False
) -> Conversation[tuple[list[Part], str, str]]:
    """Draw up to *wanted* keys of *master* from *sampled*, itself or a replica, until the monotonic clock shows *until_s*.

    *in_depth* also asks the master how the keys are used, and for some of them their values.  Returns a part for each database, why there
    is not one for all of them, and why there are no values.
    """
    parts: list[Part] = []
    keys = master.databases
    left = sum(keys.values())
    use = _use_of(master) if in_depth else None
    untold = ""
    try:
        if sampled is not master and sampled.checkup.topology is not None:
            _whole(sampled.ask([("READONLY",)]))
        if in_depth:
            untold = allows_values(sampled, is_master=sampled is master)
        for number, count in sorted(keys.items(), key=lambda one: one[1]):
            if len(keys) > 1 or number:
                for node in dict.fromkeys((sampled.address, master.address)):
                    _whole((sampled if node == sampled.address else master).ask([("SELECT", number)]))
            now_s = time.monotonic()
            share = count / left
            end_s = now_s + (until_s - now_s) * share
            drawn_s = end_s - (end_s - now_s) * VALUES_SHARE if in_depth and not untold else end_s
            each = 3 if use else 2
            whole = count <= wanted * share and count * each * MARGIN <= (drawn_s - now_s) * rate
            nodes = _Nodes(sampled, master, use)
            draws = yield from _all(nodes, drawn_s) if whole else _some(nodes, int(wanted * share), drawn_s)
            if not draws:
                return parts, "there was no time to draw keys: give it more with --seconds or --rate", untold
            part = Part(str(master.address), str(sampled.address), count, draws, whole)
            if in_depth:
                part = yield from _with_types(sampled, part, with_elements=not untold)
            if in_depth and not untold:
                part, untold = yield from with_values(sampled, part, end_s)
            parts.append(part)
            left -= count
            wanted -= len(draws)
    except (LinkError, RefusedError) as error:
        return parts, str(error), untold
    return parts, "", untold


class _Nodes(NamedTuple):
    """Who is asked for keys and their memory, and who for their *use*: the subcommand of OBJECT that the policy of the master answers."""

    sampled: Visit
    master: Visit
    use: str | None


def _use_of(master: Visit) -> str | None:
    """A replica's counters and ages know nothing of what clients read from its master: that is asked itself."""
    policy = master.checkup.info.get("maxmemory_policy")
    return None if policy is None else "FREQ" if "lfu" in policy else "IDLETIME"


def _whole(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, RespError):
            raise RefusedError(reply.text)
    return replies


def _some(nodes: _Nodes, wanted: int, until_s: float) -> Conversation[list[Draw]]:
    """Draw with replacement: a key that comes twice counts twice."""
    draws: list[Draw] = []
    node = nodes.sampled
    while len(draws) < max(wanted, 1) and time.monotonic() < until_s:
        replies = yield Question(node, [("RANDOMKEY",)] * node.together)
        named = [key for key in _whole(replies) if isinstance(key, bytes)]
        if not named:
            break
        draws += yield from _measured(nodes, named)
    return draws


def _all(nodes: _Nodes, until_s: float) -> Conversation[list[Draw]]:
    """Every key once; nothing if there was not the time for it, since what a scan meets first is no sample."""
    found: dict[bytes, Draw] = {}
    cursor: Word = 0
    while time.monotonic() < until_s:
        replies = yield Question(nodes.sampled, [("SCAN", cursor, "COUNT", SCAN_COUNT)])
        cursor, named = _whole(replies)[0]
        draws = yield from _measured(nodes, [key for key in named if key not in found])
        found.update((draw.key, draw) for draw in draws)
        if cursor in (b"0", 0):
            return list(found.values())
    return []


def _measured(nodes: _Nodes, named: Sequence[bytes]) -> Conversation[list[Draw]]:
    """Memory and use of keys; one that is gone meanwhile, or on its way to another node, is left out."""
    sizes = yield Question(nodes.sampled, [("MEMORY", "USAGE", key) for key in named])
    uses: list[Any] = [None] * len(named)
    if nodes.use:
        uses = yield Question(nodes.master, [("OBJECT", nodes.use, key) for key in named])
    for size in sizes:
        if isinstance(size, RespError) and not size.text.startswith(("MOVED ", "ASK ", "TRYAGAIN ")):
            raise RefusedError(size.text)
    draws = []
    for key, size, use in zip(named, sizes, uses, strict=True):
        if isinstance(size, int):
            told = use if isinstance(use, int) else None
            draws.append(Draw(key, size, told) if nodes.use == "FREQ" else Draw(key, size, idle_s=told))
    return draws


def _with_types(node: Visit, part: Part, *, with_elements: bool) -> Conversation[Part]:
    """*part* with the types, and the elements, of the keys that may be shown by themselves."""
    named = (*biggest([part], NAMED_MAX), *most_used([part], NAMED_MAX), *longest_idle([part], NAMED_MAX))
    keys = list({draw.key for _, draw in named})
    replies = yield Question(node, [("TYPE", key) for key in keys])
    types = {key: reply for key, reply in zip(keys, replies, strict=True) if isinstance(reply, str)}
    held = [key for key in keys if types.get(key) in ELEMENTS] if with_elements else []
    replies = yield Question(node, [(ELEMENTS[types[key]], key) for key in held])
    counts = dict(zip(held, replies, strict=True))
    return replace(
        part,
        draws=[
            draw._replace(type=types.get(draw.key, ""), elements=_number(counts.get(draw.key)))
            if draw.key in types
            else draw
            for draw in part.draws
        ],
    )


def _number(reply: Any) -> int | None:
    return reply if isinstance(reply, int) else None
