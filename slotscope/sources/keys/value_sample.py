"""What would save memory, from the values of some keys: the tally of `slotscope advise` on what DUMP answered, and how far it may be off.

The values of each master are dealt into `GROUPS` groups, each of which is a sample by itself.  What a change saves is computed from all of them
and from all but one: how much these differ is its error (the delete-a-group jackknife; Wolter, *Introduction to Variance Estimation*, 4.2).
What another version, allocator or restart saves is of all keys: where few of those read make up most of it, neither figure nor error tells
anything, and it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.advice.changes import OF_ALL_KEYS, Change, TextSums, rank_changes
from cluster_core.advice.conditions import Condition, condition_subject, conditions_for
from cluster_core.advice.totals import WALKED, Totals
from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.load.sampling import HITS_MIN, Estimate, Part, Value, is_skewed
from cluster_core.memory.model import MemoryModel, MemorySettings
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.writer import RdbWriter, target_of_dump
from slotscope.sources.keys.advice_tally import AdviceTally, advice_tally
from slotscope.sources.keys.partial_rows import TallyOptions

GROUPS: Final = 10
STANDARD_ERRORS: Final = 2.262
"""Half the width of a range that holds the truth in 95 of 100 samples: of Student's t with as many degrees of freedom as groups less one."""
VALUES_MIN: Final = 100
"""Fewer say nothing of what is left, unless they are all there are."""
PREFIXES_MAX: Final = 4096
_COMPRESSED: Final = TextSums._fields.index("sampled") - len(TextSums._fields)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A part whose values were read, of a server that is in a cluster or not; *server* and *allocator* are its version and INFO's mem_allocator."""

    part: Part
    server: str
    allocator: str
    in_cluster: bool

    @property
    def is_whole(self) -> bool:
        """Whether every key was read."""
        return self.part.whole and len(self.part.values) == len(self.part.draws)

    @property
    def scale(self) -> float:
        """Keys for each that was read."""
        return 1.0 if self.is_whole else self.part.represented / (len(self.part.values) + len(self.part.unread))


class Saving(NamedTuple):
    """A change with its error."""

    change: Change
    saved_bytes: Estimate


@dataclass(frozen=True, slots=True)
class Savings:
    """What changes would save of *now_bytes*, of *values* that were read; *unclear* more may save something, within their errors; of what
    those *unknown* save too few keys were read, or few make up most.

    *model_share* is what the memory model says of these keys, of what MEMORY USAGE told.
    """

    changes: Sequence[Saving]
    now_bytes: Estimate
    values: int
    unread: int
    unclear: int
    unknown: Sequence[Change]
    model_share: float


class NoSavingsError(Exception):
    """Why nothing can be said."""


def estimate_savings(samples: Iterable[Sampled], separators: bytes) -> Savings:
    """Measure the values of *samples* and rank the changes; prefixes end in one of *separators*.

    Raises NoSavingsError where too few were read, the servers differ, or no model knows them.
    """
    read = [item for item in samples if item.part.values]
    values = sum(len(item.part.values) for item in read)
    if not read or (values < VALUES_MIN and not all(item.is_whole for item in read)):
        raise NoSavingsError(f"only {values} values were read, {VALUES_MIN} are needed")
    if len({(item.server, item.allocator) for item in read}) > 1:
        raise NoSavingsError("the masters are of different versions")
    try:
        return _estimate(read, separators)
    except DecodeError as error:
        raise NoSavingsError(f"a value cannot be read: {error.reason}") from error


def _estimate(read: Sequence[Sampled], separators: bytes) -> Savings:
    files = [[_File(item, item.part.values[group::GROUPS]) for group in range(GROUPS)] for item in read]
    settings, model_share = _settings([file for groups in files for file in groups], read)
    options = TallyOptions(memory=settings, separators=separators, groups_max=PREFIXES_MAX)
    model, fixed, groups = None, list[Totals](), [list[Totals]() for _ in range(GROUPS)]
    moments: NDArray[np.float64] | None = None
    for item, parts in zip(read, files, strict=True):
        for number, file in enumerate(parts):
            if file.batches(settings):
                result, model, weighed = file.totals(options, item.scale)
                if not item.is_whole:
                    moments = weighed if moments is None else moments + weighed
                (fixed if item.is_whole else groups[number]).append(result)
        too_large = [draw.memory_bytes for draw in item.part.unread]
        if too_large and model is not None:
            fixed.append(_as_now(too_large, item.scale, conditions_for(model)))
    assert model is not None
    sums = [_added(group) for group in groups if group]
    every = _added([*fixed, *sums])
    others = [
        _added([*fixed, _scaled(_added([item for item in sums if item is not left_out]), len(sums) / (len(sums) - 1))])
        for left_out in sums
        if len(sums) > 1
    ]
    changes = [
        Saving(change, Estimate(change.saved_bytes, error)) for change, error in _with_errors(every, others, model)
    ]
    unknown = [] if moments is None else _unknown([item.change for item in changes], every.conditions, moments)
    known = [item for item in changes if item.change not in unknown]
    clear = [item for item in known if item.saved_bytes.value > item.saved_bytes.error]
    now = Estimate(every.memory[0], _error([item.memory[0] for item in others]))
    values, unread = (sum(len(getattr(item.part, name)) for item in read) for name in ("values", "unread"))
    return Savings(clear, now, values, unread, len(known) - len(clear), unknown, model_share)


def _unknown(changes: Sequence[Change], conditions: Sequence[Condition], moments: NDArray[np.float64]) -> list[Change]:
    """Those of *changes* to another of *conditions* of which the keys read do not tell: *moments* are hits, squares and cubes of what each key saves."""
    skewed = {
        condition_subject(item.server, item.allocator) for item, (hits, squares, cubes) in zip(conditions, moments.T, strict=True)
        if hits < HITS_MIN or is_skewed(hits, squares, cubes)
    }  # fmt: skip
    return [item for item in changes if item.kind in OF_ALL_KEYS and item.subject in skewed]


def _with_errors(every: Totals, others: Sequence[Totals], model: MemoryModel) -> Iterable[tuple[Change, float]]:
    again = [
        {(item.kind, item.subject): item.saved_bytes for item in rank_changes(other.sums(model))} for other in others
    ]
    for change in rank_changes(every.sums(model)):
        yield change, _error([saved.get((change.kind, change.subject), 0) for saved in again])


def _error(without_one: Sequence[int]) -> float:
    """Half the range that holds the truth in 95 of 100 samples, from the figures without each group."""
    if not without_one:
        return 0.0
    mean = sum(without_one) / len(without_one)
    spread = sum((item - mean) ** 2 for item in without_one)
    return STANDARD_ERRORS * math.sqrt(spread * (len(without_one) - 1) / len(without_one))


class _File:
    """The dump that a server would have written of some values."""

    def __init__(self, sampled: Sampled, values: Sequence[Value]) -> None:
        self.sampled = sampled
        self.data = np.empty(0, np.uint8)
        if values:
            family, _, version = sampled.server.partition(" ")
            writer = RdbWriter(target_of_dump(values[0].payload), checksum=False)
            pieces = [writer.head({f"{family}-ver": version, "redis-bits": 64}), writer.database(0)]
            pieces += [writer.dumped(item.key, item.payload, item.expire_at_ms) for item in values]
            self.data = np.frombuffer(b"".join([*pieces, writer.end()]), np.uint8)

    def batches(self, settings: MemorySettings) -> list[KeyBatch]:
        """Its keys, measured."""
        return self._skim(settings)[1]

    def totals(self, options: TallyOptions, scale: float) -> tuple[Totals, MemoryModel, NDArray[np.float64]]:
        """All conditions on its keys, each of which stands for *scale*; keys of which each saves anything, their savings squared and cubed."""
        skimmer, batches = self._skim(options.memory)
        tally = advice_tally(skimmer.head, options)
        if tally is None:
            raise NoSavingsError(f"no model knows the memory of {self.sampled.server}")
        moments = np.zeros((3, len(tally.conditions)))
        for batch in batches:
            tally.add(batch, self.data, 0)
            now, result, _ = tally.measured(batch, self.data, 0)
            saved = np.abs(now[:, None] - result.memory) * scale
            moments += np.stack([(saved**power * (saved > 0)).sum(axis=0) for power in (0, 2, 3)])
        return _scaled(totals_of(tally), scale), tally.model, moments

    def _skim(self, settings: MemorySettings | None) -> tuple[RdbSkimmer, list[KeyBatch]]:
        skimmer = RdbSkimmer(self.sampled.part.sampled, check_crc=False, memory=settings)
        result: list[KeyBatch] = []
        while skimmer.fed < len(self.data) and not skimmer.done:
            skimmer.feed(lambda at, count: self.data[at : at + count].data)
            result += skimmer.batches()
        return skimmer, result


def _settings(files: Sequence[_File], read: Sequence[Sampled]) -> tuple[MemorySettings, float]:
    """How keys are measured: with the allocator under which the model comes nearest to what MEMORY USAGE told; and how near."""
    reported = sum(sizes[value.key] for item in read for sizes in [_sizes(item.part)] for value in item.part.values)
    names = ("libc",) if read[0].allocator.startswith("libc") else ("jemalloc", "jemalloc-16")
    tried = [MemorySettings(name, read[0].in_cluster) for name in names]
    shares = [sum(_held(file.batches(settings)) for file in files) / max(reported, 1) for settings in tried]
    nearest = min(range(len(tried)), key=lambda at: abs(shares[at] - 1))
    return tried[nearest], shares[nearest]


def _sizes(part: Part) -> dict[bytes, int]:
    return {draw.key: draw.memory_bytes for draw in part.draws}


def _held(batches: Iterable[KeyBatch]) -> int:
    return sum(int(np.maximum(batch.memory_bytes, 0).sum()) for batch in batches if batch.memory_bytes is not None)


def totals_of(tally: AdviceTally) -> Totals:
    """The sums of *tally*, but for values that are there several times: a sample does not tell."""
    memory = [0] * (2 + len(tally.conditions))
    result = Totals(tally.conditions, 0, memory, {}, {})
    for rows in tally.rows():
        for kind, number, name, sums in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if kind == "slot":
                memory[:] = _sum(memory, sums)
            elif kind == "keys":
                result.keys = number
            elif kind == "prefix":
                result.prefixes[name] = number, sums
            elif kind == "curve":
                result.curves[name.decode(), number] = sums
    return result


def _as_now(sizes: Sequence[int], scale: float, conditions: Sequence[Condition]) -> Totals:
    """Keys too large to be read, which take under all conditions what they take now."""
    held = round(sum(sizes) * scale)
    keys = round(len(sizes) * scale)
    return Totals(conditions, keys, [held] * (1 + len(conditions)) + [keys], {}, {})


def _scaled(totals: Totals, scale: float) -> Totals:
    """*totals* as if there were *scale* times as many keys; the most elements that a command walks, and how many values were compressed, stay as they are."""

    def times(sums: Sequence[int]) -> list[int]:
        return [round(item * scale) for item in sums]

    return Totals(
        totals.conditions,
        round(totals.keys * scale),
        times(totals.memory),
        {
            name: (
                round(keys * scale),
                [*times(sums[:_COMPRESSED]), sums[_COMPRESSED], *times(sums[_COMPRESSED + 1 :])],
            )
            for name, (keys, sums) in totals.prefixes.items()
        },
        {at: [*times(sums[:WALKED]), sums[WALKED], *times(sums[WALKED + 1 :])] for at, sums in totals.curves.items()},
    )


def _added(several: Sequence[Totals]) -> Totals:
    result = Totals(several[0].conditions, sum(item.keys for item in several), [0] * len(several[0].memory), {}, {})
    for item in several:
        result.memory = _sum(result.memory, item.memory)
        for name, (keys, sums) in item.prefixes.items():
            before = result.prefixes.get(name, (0, [0] * len(sums)))
            result.prefixes[name] = before[0] + keys, _sum(before[1], sums)
        for at, sums in item.curves.items():
            old = result.curves.get(at, [0] * len(sums))
            result.curves[at] = [
                *_sum(old[:WALKED], sums[:WALKED]),
                max(old[WALKED], sums[WALKED]),
                *_sum(old[WALKED + 1 :], sums[WALKED + 1 :]),
            ]
    return result


def _sum(old: Sequence[int], new: Sequence[int]) -> list[int]:
    return [item + other for item, other in zip(old, new, strict=True)]
