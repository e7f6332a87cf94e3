"""Memory of the keys of one node: all of them where the time allows it, else the large ones and a random sample of the rest.

SCAN names every key and MEMORY USAGE measures it.  Where the time is not enough for all keys, collections above
`LARGE_BYTES` are searched with SCAN TYPE, which returns no key of another type, and the rest is sampled with RANDOMKEY.  INFO bounds the
memory of all keys (`cluster_core.load.sampling.Part.limits`).
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from cluster_core.load.sampling import (
    Part,
    SampledKey,
    biggest,
    key_memory_limits,
    longest_idle,
    most_used,
    sums_by_slot,
)
from cluster_core.wire.resp import RespError
from slotscope.servers.node_link import LinkError, Word
from slotscope.servers.visits import Visit

SENT: Final = (
    "SELECT", "READONLY", "RANDOMKEY", "SCAN", "MEMORY USAGE", "TYPE", "OBJECT FREQ", "OBJECT IDLETIME", "CLIENT NO-TOUCH",
)  # fmt: skip
"""Commands for the node that is measured, and for its master (SELECT, OBJECT); none of them changes a key's age or counter."""
ELEMENTS: Final = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "stream": "XLEN"}
"""Commands that count the elements of each type; sent only where the node promises not to count that as use."""
SCAN_COUNT_BY_TYPE: Final = 500
"""Keys that a server looks at for one SCAN TYPE: some tens of microseconds."""
LARGE_BYTES: Final = 32 << 10
"""A larger key is measured again with `SAMPLES` elements: with the five of the default a sorted set is off by several per cent."""
SAMPLES: Final = 2000
"""Some tenths of a millisecond of the server's time, with an error of some tenths of a per cent."""
LARGE_AT_ONCE: Final = 5
NAMED_MAX: Final = 20
"""Keys of a part that are asked for their types."""
PILOT_SHARE: Final = 0.2
"""Part of the time after which it is decided whether all keys can be measured."""
PILOT_S_MAX: Final = 5.0
SEARCH_SHARE: Final = 0.4
"""Part of the time that is left for large collections, where not all keys are measured."""
OVERTIME: Final = 1.3
"""Multiple of the time limit up to which all keys are measured; a half-finished scan may take longer."""
KEPT_MAX: Final = 400_000
"""Keys of all masters that are kept one by one, some 200 bytes each; of more, the sums by slot, the largest and a random part."""
LARGEST_KEPT: Final = 1000


class RefusedError(Exception):
    """The server does not let us measure."""


@dataclass(slots=True)
class Progress:
    """How many *keys* are to be measured and how many are; masters that take turns share one."""

    keys: int
    done: int = 0
    all_keys_s: float = 0.0
    """Seconds that all keys would take, where that is too long."""

    def expected_s(self, took_s: float) -> float:
        """Expected seconds in total at the present pace."""
        return took_s * self.keys / max(self.done, 1)

    @property
    def share(self) -> float:
        """Part of the keys that are measured."""
        return self.done / max(self.keys, 1)


@dataclass(frozen=True, slots=True)
class MeasuringJob:
    """The keys of *master* to be measured at *measured*, itself or a replica; at most *kept_max* of them are kept one by one."""

    master: Visit
    measured: Visit
    kept_max: int
    progress: Progress


def jobs_of(pairs: Sequence[tuple[Visit, Visit]]) -> list[MeasuringJob]:
    """Return a job for each master and the node that measures it; together they keep up to `KEPT_MAX` keys."""
    keys = [sum(master.databases.values()) for master, _ in pairs]
    shared = Progress(sum(count for (_, measured), count in zip(pairs, keys, strict=True) if measured.is_here))
    return [
        MeasuringJob(
            master, measured, max(count * KEPT_MAX // max(sum(keys), KEPT_MAX), 1),
            shared if measured.is_here else Progress(count),
        )
        for (master, measured), count in zip(pairs, keys, strict=True)
    ]  # fmt: skip


def measure_parts(job: MeasuringJob, until_s: float, *, in_depth: bool = False) -> tuple[list[Part], str]:
    """Measure keys until the monotonic clock shows about *until_s*.

    *in_depth* also asks the master how the keys are used.
    Returns a part for each database, and why there is not one for all of them.
    """
    parts: list[Part] = []
    master, measured = job.master, job.measured
    keys = master.databases
    left = sum(keys.values())
    policy = master.checkup.info.get("maxmemory_policy") if in_depth else None
    use = None if policy is None else "FREQ" if "lfu" in policy else "IDLETIME"  # replicas miss reads of clients
    try:
        if measured is not master and measured.checkup.topology is not None:
            _accepted(measured.ask([("READONLY",)]))
        with_elements = in_depth and _counts_no_use(measured, is_master=measured is master)
        for number, count in sorted(keys.items(), key=lambda item: item[1]):
            if len(keys) > 1 or number:
                for node in dict.fromkeys((measured.address, master.address)):
                    _accepted((measured if node == measured.address else master).ask([("SELECT", number)]))
            now_s = time.monotonic()
            share = count / left
            end_s = now_s + (until_s - now_s) * share
            nodes = _Nodes(measured, master, use)
            part = _measure_database(nodes, count, job, end_s)
            if not part.draws and not part.large:
                return parts, "no time left to measure keys: raise --seconds or --rate"
            part = replace(part, limits=key_memory_limits(measured.checkup.info, count) if len(keys) == 1 else None)
            if in_depth:
                part = _with_types(measured, part, with_elements=with_elements)
            parts.append(part)
            left -= count
    except (LinkError, RefusedError) as error:
        return parts, str(error)
    return parts, ""


class _Nodes(NamedTuple):
    """Nodes of a measurement: one for keys and their memory, the master for their *use* (the subcommand of OBJECT for its policy)."""

    measured: Visit
    master: Visit
    use: str | None

    @property
    def keys_at_once(self) -> int:
        """Keys for one batch of commands: a SCAN may return more than requested."""
        commands = 2 if self.use and self.measured is self.master else 1
        return max(self.measured.together * 9 // 10 // commands, 1)


@dataclass(slots=True)
class _Tally:
    """Sums of measured keys by slot, and up to *room* of the keys.

    Beyond it keys are kept with equal chances (reservoir sampling).  The largest are kept for certain; those of *distinct* keys count by
    themselves, others are in the random part, too.
    """

    room: int
    distinct: bool
    by_slot: dict[int, list[int]] = field(default_factory=dict)
    seen: int = 0
    kept: list[SampledKey] = field(default_factory=list)
    largest: list[tuple[int, int, SampledKey]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    offered: int = 0

    def add(self, draws: Sequence[SampledKey]) -> None:
        sums_by_slot(draws, self.by_slot)
        before, self.seen = self.seen, self.seen + len(draws)
        if self.seen <= self.room:
            self.kept += draws
            return
        if before <= self.room:
            draws, self.kept = [*self.kept, *draws], []
            before = 0
        for number, draw in enumerate(draws, before):
            self._offer(number, draw)

    def _offer(self, number: int, draw: SampledKey) -> None:
        """Take in the draw of that *number*."""
        entry = (draw.memory_bytes, number, draw)
        if len(self.largest) < LARGEST_KEPT:
            heapq.heappush(self.largest, entry)
            if self.distinct:
                return
        else:
            smallest = heapq.heappushpop(self.largest, entry)[2]
            draw = smallest if self.distinct else draw
        self.offered += 1
        if len(self.kept) < self.room:
            self.kept.append(draw)
        elif (place := self.chance.randrange(self.offered)) < self.room:
            self.kept[place] = draw

    @property
    def large(self) -> list[SampledKey]:
        """The largest, where not all keys are kept."""
        return [draw for _, _, draw in self.largest]


def _accepted(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, RespError):
            raise RefusedError(reply.text)
    return replies


def _measure_database(nodes: _Nodes, keys: int, job: MeasuringJob, until_s: float) -> Part:
    """Return a part with all keys, or with the large ones that were found and a sample."""
    tally = _Tally(job.kept_max, distinct=True)
    is_complete = _scan_all(nodes, keys, tally, job.progress, until_s)
    part = Part(str(nodes.master.address), str(nodes.measured.address), keys, ())
    if is_complete:
        return replace(
            part,
            keys=tally.seen,
            draws=tally.kept,
            large=tally.large,
            whole=not tally.large,
            slot_bytes={slot: size for slot, (_, size, _, _) in tally.by_slot.items()},
            slot_keys={slot: count for slot, (count, _, _, _) in tally.by_slot.items()},
        )
    now_s = time.monotonic()
    large_draws = _search_large(nodes, now_s + max(0.0, until_s - now_s) * SEARCH_SHARE)
    large_draws |= {draw.key: draw for draw in (*tally.kept, *tally.large) if draw.memory_bytes > LARGE_BYTES}
    sample = _sample(nodes, large_draws, job.kept_max, until_s)
    all_kept = sample.seen == len(sample.kept)
    return replace(
        part, draws=sample.kept, large=list(large_draws.values()), largest=sample.large, slot_draws=None if all_kept else sample.by_slot
    )  # fmt: skip


def _scan_all(nodes: _Nodes, keys: int, tally: _Tally, progress: Progress, until_s: float) -> bool:
    """Measure key after key; return False once the pace shows that there is not the time for all of *keys*."""
    begun_s = time.monotonic()
    seen: set[bytes] = set()
    cursor: Word = 0
    named: list[bytes] = []
    is_last = False
    while named or not is_last:
        more = [] if is_last else [("SCAN", cursor, "COUNT", nodes.keys_at_once)]
        draws, replies = _measure(nodes, named, more)
        tally.add(draws)
        progress.done += len(named)
        named = []
        if replies:
            cursor, scanned = _accepted(replies)[0]
            is_last = cursor in (b"0", 0)
            named = [key for key in dict.fromkeys(scanned) if key not in seen]
            if keys <= tally.room:
                seen.update(named)
        took_s, left_s = time.monotonic() - begun_s, until_s - begun_s
        most_s = left_s * (OVERTIME + progress.share)
        if (
            not is_last
            and progress.done
            and took_s >= min(left_s * PILOT_SHARE, PILOT_S_MAX)
            and progress.expected_s(took_s) > most_s
        ):
            progress.all_keys_s = max(progress.all_keys_s, progress.expected_s(took_s))
            return False
    return True


def _search_large(nodes: _Nodes, until_s: float) -> dict[bytes, SampledKey]:
    """Collections above `LARGE_BYTES`, as many as are found in the time."""
    large_draws: dict[bytes, SampledKey] = {}
    for kind in ELEMENTS:
        cursor: Word = 0
        while time.monotonic() < until_s:
            replies = nodes.measured.ask([("SCAN", cursor, "COUNT", SCAN_COUNT_BY_TYPE, "TYPE", kind)])
            if isinstance(replies[0], RespError):
                return large_draws
            cursor, named = replies[0]
            draws, _ = _measure(nodes, [key for key in named if key not in large_draws])
            large_draws.update((draw.key, draw) for draw in draws if draw.memory_bytes > LARGE_BYTES)
            if cursor in (b"0", 0):
                break
    return large_draws


def _sample(nodes: _Nodes, large: Mapping[bytes, SampledKey], room: int, until_s: float) -> _Tally:
    """Draw keys with replacement among all but the *large* ones until the time ends: a key that comes twice counts twice."""
    tally = _Tally(room, distinct=False)
    named: list[bytes] = []
    while True:
        is_last = bool(named) and time.monotonic() >= until_s
        count = 0 if is_last else nodes.keys_at_once
        measured, replies = _measure(nodes, named, [("RANDOMKEY",)] * count)
        tally.add(measured)
        drawn = [key for key in _accepted(replies) if isinstance(key, bytes)]
        if not drawn:
            return tally
        named = [key for key in drawn if key not in large]


def _measure(
    nodes: _Nodes, named: Sequence[bytes], more: Sequence[Sequence[Word]] = ()
) -> tuple[list[SampledKey], list[Any]]:
    """Memory and use of keys, and the replies to *more*; deleted and moving keys are left out."""
    questions = [("MEMORY", "USAGE", key) for key in named]
    uses = [("OBJECT", nodes.use, key) for key in named] if nodes.use else []
    here = nodes.measured is nodes.master
    replies = nodes.measured.ask([*questions, *(uses if here else ()), *more])
    sizes = replies[: len(named)]
    counts = replies[len(named) : len(named) + len(uses)] if here else nodes.master.ask(uses)
    for size in sizes:
        if isinstance(size, RespError) and not size.text.startswith(("MOVED ", "ASK ", "TRYAGAIN ")):
            raise RefusedError(size.text)
    large = [at for at, size in enumerate(sizes) if isinstance(size, int) and size > LARGE_BYTES]
    for start in range(0, len(large), LARGE_AT_ONCE):
        some = large[start : start + LARGE_AT_ONCE]
        closer = nodes.measured.ask([("MEMORY", "USAGE", named[at], "SAMPLES", SAMPLES) for at in some])
        for at, size in zip(some, closer, strict=True):
            sizes[at] = size
    draws = []
    for key, size, use in zip(named, sizes, counts or [None] * len(named), strict=True):
        if isinstance(size, int):
            count = use if isinstance(use, int) else None
            draws.append(SampledKey(key, size, count) if nodes.use == "FREQ" else SampledKey(key, size, idle_s=count))
    return draws, replies[len(replies) - len(more) :]


def _with_types(node: Visit, part: Part, *, with_elements: bool) -> Part:
    """*part* with the types, and the elements, of the keys that may be shown by themselves."""
    named = (*biggest([part], NAMED_MAX), *most_used([part], NAMED_MAX), *longest_idle([part], NAMED_MAX))
    keys = list({draw.key for _, draw in named})
    replies = node.ask([("TYPE", key) for key in keys])
    types = {key: reply.decode() for key, reply in zip(keys, replies, strict=True) if isinstance(reply, bytes)}
    held = [key for key in keys if types.get(key) in ELEMENTS] if with_elements else []
    replies = node.ask([(ELEMENTS[types[key]], key) for key in held])
    counts = {key: reply for key, reply in zip(held, replies, strict=True) if isinstance(reply, int)}

    def typed(draws: Sequence[SampledKey]) -> list[SampledKey]:
        return [
            draw._replace(type=types.get(draw.key, ""), elements=counts.get(draw.key)) if draw.key in types else draw
            for draw in draws
        ]

    return replace(part, draws=typed(part.draws), large=typed(part.large), largest=typed(part.largest))


def _counts_no_use(measured: Visit, *, is_master: bool) -> bool:
    """Whether commands about elements leave LRU and LFU data as they are: CLIENT NO-TOUCH of Redis 7.2, or a replica.  Raises LinkError."""
    (reply,) = measured.ask([("CLIENT", "NO-TOUCH", "ON")])
    return not (isinstance(reply, RespError) and is_master)
