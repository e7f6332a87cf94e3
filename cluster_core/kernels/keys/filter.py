"""Filter keys of a batch by properties that a skim knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import ConditionError, UnrecordedError
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.sizes import UNITS
from cluster_core.slots.key_slot import SLOT_COUNT


def glob_regex(pattern: bytes) -> str:
    """Convert *pattern* to RE2: ``*``, ``?``, ``[a-c]``, ``[^a]``, ``\\`` for literals; ConditionError with a place."""
    steps: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at : at + 1]
        if letter == b"*":
            steps.append(".*")
        elif letter == b"?":
            steps.append(".")
        elif letter == b"[":
            at, members = _members(pattern, at)
            steps.append(f"[{''.join(map(_escaped, members))}]" if members else "[^\\x00-\\xff]")
        else:
            at += letter == b"\\"
            if at == len(pattern):
                raise ConditionError("nothing follows the \\", at - 1)
            steps.append(_escaped(pattern[at]))
        at += 1
    return f"\\A(?s:{''.join(steps)})\\z"


def prefix_regex(prefix: bytes) -> str:
    """Return the expression of all keys that begin with *prefix*."""
    return f"\\A{''.join(map(_escaped, prefix))}"


def _escaped(byte: int) -> str:
    return f"\\x{byte:02x}"


def _members(pattern: bytes, begin: int) -> tuple[int, list[int]]:
    """Return the position of the ``]`` of the class starting at *begin*, and the bytes it matches."""
    at = begin + 1
    negated = pattern[at : at + 1] == b"^"
    at += negated
    result: set[int] = set()
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            result.add(pattern[at + 1])
            at += 2
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            result.update(range(low, high + 1))
            at += 3
        else:
            result.add(pattern[at])
            at += 1
    if at >= len(pattern):
        raise ConditionError("no ] closes this [", begin)
    return at, sorted(set(range(256)) - result if negated else result)


CONDITIONS = ("match", "prefix", "type", "db", "slot", "size", "ttl", "idle", "freq")
"""Names of conditions, as in `key_filter` and options."""
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "": 1}
NUMBERS = {"": 1}
_BOUND = re.compile(r"\s*(>=|<=|>|<|=|)\s*([0-9]{1,15})([a-z]*)\s*", re.IGNORECASE)
_COUNT = re.compile(r"0*[1-9][0-9]{0,14}")
_TOP = (1 << 63) - 1
T = TypeVar("T")


class IntegerRange(NamedTuple):
    """Whole numbers from *low* to *high* inclusive; *is_absent*: or missing."""

    low: int = 0
    high: int = _TOP
    is_absent: bool = False

    def mark(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *values* match; `NONE` is a missing value."""
        if self.is_absent:
            return np.asarray(values == NONE)
        return np.asarray((values >= self.low) & (values <= self.high) & (values != NONE))


def between(text: str, units: dict[str, int]) -> IntegerRange:
    """Parse ranges: ``>1kb``, ``<=30d``, ``5``, ``1kb-1mb``, comma-separated, ``none``, ``any``.

    Raises ConditionError with the place of the fault.
    """
    if text.strip().lower() in ("none", "any"):
        return IntegerRange(is_absent=text.strip().lower() == "none")
    low, high, at = 0, _TOP, 0
    while True:
        sign, first, after = _bound(text, at, units)
        if sign == "" and text[after : after + 1] == "-":
            second_sign, second, after = _bound(text, after + 1, units)
            if second_sign:
                raise ConditionError("a range is FIRST-LAST, without a sign", at)
            bottom, top = first, second
        else:
            bottom = first + (sign == ">") if sign in (">", ">=", "=", "") else 0
            top = first - (sign == "<") if sign in ("<", "<=", "=", "") else _TOP
        low, high = max(low, bottom), min(high, top)
        if low > high:
            raise ConditionError("no number is like that", at)
        if after == len(text):
            return IntegerRange(low, high)
        if text[after] != ",":
            raise ConditionError(f"{text[after]!r} is not expected here", after)
        at = after + 1


def _bound(text: str, at: int, units: dict[str, int]) -> tuple[str, int, int]:
    result = _BOUND.match(text, at)
    if result is None:
        raise ConditionError("a number is due here: >1kb, <=30d, 10-20", at)
    unit = result[3].lower()
    if unit not in units:
        known = ", ".join(name for name in units if name)
        wrong = f"unit {result[3]!r} is not known: {known}" if known else f"{result[3]!r} is not expected here"
        raise ConditionError(wrong, result.start(3))
    return result[1], int(result[2]) * units[unit], result.end()


def slots_of(text: str) -> NDArray[np.bool_]:
    """Parse slots (``0-5460,12000``) to 16384 marks; ConditionError with the place of the fault."""
    marks = np.zeros(SLOT_COUNT, np.bool_)
    for at, part in _listed(text):
        numbers = re.fullmatch(r"([0-9]{1,5})\s*(?:-\s*([0-9]{1,5}))?", part)
        first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (1, 0)
        if first > last or last >= SLOT_COUNT:
            raise ConditionError(f"{part!r} is not a slot or range of slots (0 to 16383)", at)
        marks[first : last + 1] = True
    return marks


def count_of(text: str) -> int:
    """Parse a number of keys, 1 or more; raises ConditionError."""
    if not _COUNT.fullmatch(text.strip()):
        raise ConditionError("a number of keys is due here, 1 or more", 0)
    return int(text)


def read_option(option: str, text: str, reader: Callable[[str], T]) -> T:
    """Apply *reader* to *text*, the value of *option*; ConditionError with option, line and column of the fault."""
    try:
        return reader(text)
    except ConditionError as error:
        raise error.within(option, text) from None


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Conditions on keys; an empty condition matches all.

    *names* are alternative RE2 expressions; *size*: bytes of the record in the file; *ttl*, *idle* in seconds; *freq*: LFU
    counter.
    """

    names: tuple[str, ...] = ()
    types: frozenset[int] = frozenset()
    dbs: frozenset[int] = frozenset()
    slots: NDArray[np.bool_] | None = None
    size: IntegerRange | None = None
    ttl: IntegerRange | None = None
    idle: IntegerRange | None = None
    freq: IntegerRange | None = None

    def rows(self, batch: KeyBatch, taken_at_ms: int | None, source: str = "the dump") -> NDArray[np.int64]:
        """Return the rows of matching keys of *batch*, of *source*; times to live count from *taken_at_ms*.

        Raises UnrecordedError if the dump lacks the data of a condition.
        """
        self._check_recorded(batch, taken_at_ms, source)
        chosen = np.ones(len(batch), np.bool_)
        if self.types:
            chosen &= np.isin(batch.type, list(self.types))
        if self.dbs:
            chosen &= np.isin(batch.db, list(self.dbs))
        if self.slots is not None:
            chosen &= self.slots[batch.slot]
        for wanted, values in (
            (self.size, batch.serialized_bytes),
            (self.idle, batch.idle_s),
            (self.freq, batch.freq),
        ):
            if wanted is not None:
                chosen &= wanted.mark(values.astype(np.int64, copy=False))
        if self.ttl is not None and taken_at_ms is not None:
            left = np.maximum(batch.expire_at_ms - taken_at_ms, 0) // 1000
            chosen &= self.ttl.mark(np.where(batch.expire_at_ms == NONE, NONE, left))
        rows = np.flatnonzero(chosen)
        return rows[_matches("|".join(self.names), batch, rows)] if self.names and len(rows) else rows

    def _check_recorded(self, batch: KeyBatch, taken_at_ms: int | None, source: str) -> None:
        """Check that the dump has usage data; a server records it for all keys or none."""
        for option, wanted, values, policies in (
            ("--idle", self.idle, batch.idle_s, "allkeys-lru or volatile-lru"),
            ("--freq", self.freq, batch.freq, "allkeys-lfu or volatile-lfu"),
        ):
            if wanted is not None and len(batch) and not (values != NONE).any():
                raise UnrecordedError(f"{option}: not recorded in {source}; set maxmemory-policy {policies}")
        if self.ttl is not None and taken_at_ms is None:
            raise UnrecordedError(f"--ttl: {source} does not say when it was taken (ctime)")


def _matches(regex: str, batch: KeyBatch, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    import pyarrow.compute as pc  # 0.1 s, needed for names only

    from cluster_core.kernels.key_batch import gather_binary

    starts = batch.key_offsets[rows].astype(np.int64)
    names = gather_binary(batch.key_data, starts, batch.key_offsets[rows + 1] - starts)
    return np.asarray(pc.match_substring_regex(names, regex).to_numpy(zero_copy_only=False))


def key_filter(
    *,
    match: Sequence[str] = (),
    prefix: Sequence[str] = (),
    type: Sequence[str] = (),
    db: Sequence[str] = (),
    slot: str | None = None,
    size: str | None = None,
    ttl: str | None = None,
    idle: str | None = None,
    freq: str | None = None,
) -> KeyFilter:
    """Return the filter of textual conditions, None for none; ConditionError with option, line and column."""
    return KeyFilter(
        names=(
            *(read_option("--match", text, _glob) for text in match),
            *(prefix_regex(_bytes(text)) for text in prefix),
        ),
        types=frozenset(number for text in type for number in read_option("--type", text, _types)),
        dbs=frozenset(number for text in db for number in read_option("--db", text, _databases)),
        slots=None if slot is None else read_option("--slot", slot, slots_of),
        size=_optional("--size", size, UNITS),
        ttl=_optional("--ttl", ttl, SECONDS),
        idle=_optional("--idle", idle, SECONDS),
        freq=_optional("--freq", freq, NUMBERS),
    )


def _optional(option: str, text: str | None, units: dict[str, int]) -> IntegerRange | None:
    return None if text is None else read_option(option, text, lambda text: between(text, units))


def _listed(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comma-separated parts of *text*, without blanks, and their positions."""
    at = 0
    for part in text.split(","):
        yield at + len(part) - len(part.lstrip()), part.strip()
        at += len(part) + 1


def _glob(text: str) -> str:
    raw = _bytes(text)
    try:
        return glob_regex(raw)
    except ConditionError as error:
        letters = raw[: error.at].decode("utf-8", "surrogateescape")
        raise ConditionError(error.reason, len(letters)) from None


def _bytes(text: str) -> bytes:
    """Return a command line argument as its original bytes."""
    return text.encode("utf-8", "surrogateescape")


def _types(text: str) -> list[int]:
    for at, name in _listed(text):
        if name not in KEY_TYPES:
            raise ConditionError(f"{name!r} is not a type; types are {', '.join(KEY_TYPES)}", at)
    return [KEY_TYPES.index(name) for _, name in _listed(text)]


def _databases(text: str) -> list[int]:
    for at, number in _listed(text):
        if not re.fullmatch("[0-9]{1,9}", number):
            raise ConditionError(f"{number!r} is not a database number (0, 1, …)", at)
    return [int(number) for _, number in _listed(text)]
