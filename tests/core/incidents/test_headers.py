"""Headers of a node that are fed in parts, saved in between, come to what all of them come to at once."""

from __future__ import annotations

import random

from cluster_core.incidents.headers import NodeHeaders
from cluster_core.incidents.speech import Said
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.replay.saving import load, save

THRESHOLDS = Thresholds(1_000_000_000)
SECOND = 1_000_000_000
NODE, MASTER = "a" * 40, "b" * 40


def headers(seed: int, count: int = 400) -> list[tuple[int, Said]]:
    """What a node says: claims, epochs and silences change now and then, and epochs go back."""
    chance, told, ts_ns = random.Random(seed), [], 0
    for ref in range(count):
        ts_ns += SECOND // 10 if chance.random() < 0.97 else 5 * SECOND
        flags = 0x2001 if chance.random() < 0.9 else 0x2002
        epoch = 5 + ref // 100 - (chance.random() < 0.02)
        said = Said(ts_ns, ref, flags, "" if flags & 1 else MASTER, epoch, 4, chance.randint(0, 1), 0, 10 * ref)
        told.append((chance.randint(0, 3), said))
    return told


def test_headers_in_parts_come_to_what_they_come_to_at_once() -> None:
    told = headers(1)
    last_ns = told[-1][1].ts_ns + 30 * SECOND

    at_once, in_parts = NodeHeaders(NODE, THRESHOLDS), NodeHeaders(NODE, THRESHOLDS)
    for number, (way, said) in enumerate(told):
        at_once.feed(way, said)
        in_parts.feed(way, said)
        if number % 37 == 0:
            in_parts = load(save(in_parts))
    spans, breaches = at_once.finish(last_ns)

    assert in_parts.finish(last_ns) == (spans, breaches)
    assert len(spans) > 10
    assert breaches
