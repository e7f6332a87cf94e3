"""Dumps cut by slots into parts: one file a master, all of them whole under their names or none there.

Bytes of keys are copied as they are, in one pass.  Records that every server needs (functions, scripts, data of modules) go to all parts.
Parts state no sizes of databases and slots, which are hints for the server's tables.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch, KeyRuns, key_runs
from cluster_core.rdb import grammar
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.skim import RecordBounds
from cluster_core.rdb.strings import string_at
from cluster_core.rdb.writer import RdbWriter, Target, target_like
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from slotscope.runtime.errors import InputError
from slotscope.sources.rdb.files import RangeReader, RdbUnit, RdbUnitReader, read_facts

SPAN_BYTES = 8 << 20
"""Bytes of a dump that are read at once; a key that is larger passes through in pieces."""
BUFFERED_BYTES = 256 << 20
"""Bytes that all parts together hold back before they are written."""
RECORD_BYTES_MAX = 256 << 20
"""A larger record that is not a key is refused, not held."""
KEPT_AUX = ("valkey-ver", "redis-ver", "redis-bits", "ctime", "aof-base")
"""Aux fields that a part keeps.  A part is no longer the data set of the replication id and offset, so those are left out."""
SLOT_INFO_AUX = b"slot-info"
PARTIAL = ".partial"
_SCRIPT_AUX = b"lua"
_LIBRARY = re.compile(rb"#![^\n]*\bname=([^\s]+)")


@dataclass(slots=True)
class Part:
    """One file to be, with its *keys* and *expires* so far."""

    path: str
    target: Target
    aux: Mapping[str, str | int]
    flush_bytes: int = 4 << 20
    keys: int = 0
    expires: int = 0
    size: int = 0
    _writer: RdbWriter = field(init=False)
    _held: bytearray = field(default_factory=bytearray)
    _db: int | None = None

    def begin(self) -> None:
        """Create the file under a name of its own."""
        self._writer = RdbWriter(self.target)
        with open(self.path + PARTIAL, "wb") as out:
            out.write(self._writer.head(self.aux))

    def select(self, db: int) -> None:
        """Go on with database *db*."""
        if db != self._db:
            self.flush()
            self._append(self._writer.database(db))
            self._db = db

    def add(self, piece: bytes) -> None:
        """Add whole records, or the next piece of one."""
        self._held += piece
        if len(self._held) >= self.flush_bytes:
            self.flush()

    def add_common(self, record: bytes) -> None:
        """Add a record that is not a key."""
        self.flush()
        self._append(self._writer.raw_preamble(record))

    def flush(self) -> None:
        """Write what is held back."""
        if self._held:
            self._append(self._writer.raw(self._held))
            self._held.clear()

    def end(self) -> None:
        """Write the end of the file."""
        self.flush()
        self._append(self._writer.end())
        self.size = self._writer.bytes

    def _append(self, data: bytes | bytearray) -> None:
        with open(self.path + PARTIAL, "ab") as out:  # opened anew: parts may be more than files may be open
            out.write(data)


@dataclass(slots=True)
class Source:
    """One dump: its *keys* in parts, the *hollow* ones without elements, and what no part holds, by name."""

    path: str
    keys: int = 0
    hollow: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def begin_parts(folder: str, names: Sequence[str], paths: Sequence[str]) -> list[Part]:
    """Return the parts of the dumps at *paths*, one for each of *names*.

    Raises InputError for dumps of two dialects or of one shard, DecodeError for what is no dump.
    """
    facts = [read_facts(path) for path in paths]
    if len({head.dialect for head, _ in facts}) > 1:
        raise InputError("dumps of Redis and of Valkey 9 cannot be cut into one set of parts: no server reads both")
    by_replid: dict[str, str] = {}
    for path, (_, aux) in zip(paths, facts, strict=True):
        replid = aux.get("repl-id", "")
        if replid.strip("0") and (other := by_replid.setdefault(replid, path)) != path:
            raise InputError(f"{other} and {path} are dumps of one shard (replication id {replid}): name one of them")
    head, newest = max(facts, key=lambda item: item[0].version)
    kept = _aux(head, newest, [aux for _, aux in facts])
    flush_bytes = min(4 << 20, BUFFERED_BYTES // len(names))
    return [Part(os.path.join(folder, f"{name}.rdb"), target_like(head), kept, flush_bytes) for name in names]


def _aux(head: RdbHead, newest: Mapping[str, str], aux: Sequence[Mapping[str, str]]) -> dict[str, str | int]:
    """The writer's version and word size, and the time of the oldest dump."""
    result: dict[str, str | int] = {name: newest[name] for name in ("valkey-ver", "redis-ver") if name in newest}
    for name in ("redis-bits", "ctime"):
        values = [int(item[name]) for item in aux if item.get(name, "").isdecimal() and len(item[name]) <= 12]
        if values:
            result[name] = min(values)
    if head.version >= 10:
        result["aof-base"] = 0
    return result


def write_parts(
    parts: Sequence[Part], part_of: NDArray[np.int64], units: Sequence[RdbUnit], manifest: str
) -> list[Source]:
    """Write all *parts* from the dumps, then remove an old *manifest* and give the parts their names; without a trace if that fails.

    *part_of* is the part of each slot, -1: none.  Raises DecodeError for a damaged dump; InputError for keys that no part is to hold,
    and for common records that contradict each other.
    """
    try:
        for part in parts:
            part.begin()
        copy = _Copy(parts, part_of, len(units))
        sources = [copy.run(unit) for unit in units]
        unowned = np.flatnonzero(copy.unowned).tolist()
        if unowned:
            count = int(copy.unowned.sum())
            raise InputError(f"{count} keys lie in slots that nobody is to own: {str(SlotSet(unowned))[:80]}")
        for part in parts:
            part.end()
        if os.path.exists(manifest):
            os.unlink(manifest)
        for part in parts:
            os.replace(part.path + PARTIAL, part.path)
    finally:
        for part in parts:
            if os.path.exists(part.path + PARTIAL):
                os.unlink(part.path + PARTIAL)
    return sources


class _Copy:
    """Copies dumps to *parts*, each common record once; *unowned* counts keys that no part is to hold, by slot."""

    def __init__(self, parts: Sequence[Part], part_of: NDArray[np.int64], dumps: int) -> None:
        self.unowned = np.zeros(SLOT_COUNT, np.int64)
        self._parts = parts
        self._part_of = part_of
        self._dumps = dumps
        self._common: set[bytes] = set()
        self._libraries: set[bytes] = set()

    def run(self, unit: RdbUnit) -> Source:
        """Copy one dump."""
        source = Source(unit.path)
        reader = RdbUnitReader(unit)
        others = RangeReader(unit.path)
        try:
            for item in reader.records():
                if isinstance(item, KeyBatch):
                    self._add_keys(source, item, others)
                elif item.end - item.begin > RECORD_BYTES_MAX:
                    reason = f"a record of {item.end - item.begin} bytes that is not a key is more than is held"
                    raise DecodeError(reason, offset=item.begin, source=unit.path)
                else:
                    self._add_record(source, item, others.read(item.begin, item.end - item.begin))
        finally:
            others.close()
        if reader.trailing_bytes:
            reason = f"{reader.trailing_bytes} bytes follow the dump's end: a log that is not split"
            raise DecodeError(reason, offset=reader.skimmer.position, source=unit.path)
        return source

    def _add_keys(self, source: Source, batch: KeyBatch, others: RangeReader) -> None:
        hollow = batch.hollow()
        source.hollow += int(hollow.sum())
        source.keys += len(batch) - int(hollow.sum())
        owners = self._part_of[batch.slot]
        self.unowned += np.bincount(batch.slot[(owners < 0) & ~hollow], minlength=SLOT_COUNT)
        chosen = (owners >= 0) & ~hollow
        if not chosen.all():
            batch, owners = batch.where(chosen), owners[chosen]
        count = len(self._parts)
        keys, expires = (np.bincount(rows, minlength=count) for rows in (owners, owners[batch.expire_at_ms >= 0]))
        for part, more_keys, more_expires in zip(self._parts, keys.tolist(), expires.tolist(), strict=True):
            part.keys += more_keys
            part.expires += more_expires
        for runs in key_runs(batch, owners).spans(SPAN_BYTES):
            self._copy_runs(runs, others)

    def _copy_runs(self, runs: KeyRuns, others: RangeReader) -> None:
        """Copy the keys of *runs*; slices are bytes, of which there are many: views would keep the garbage collector busy."""
        start, end = int(runs.start[0]), int(runs.end[-1])
        span = others.read(start, min(end - start, SPAN_BYTES))
        pieces: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        for first, last, number, db in zip(*(column.tolist() for column in runs), strict=True):
            pieces[number, db].append(span[first - start : last - start])
        for (number, db), held in pieces.items():
            self._parts[number].select(db)
            self._parts[number].add(b"".join(held))
        at = start + len(span)
        while at < end:  # one run, longer than a span
            piece = others.read(at, min(end - at, SPAN_BYTES))
            self._parts[int(runs.part[0])].add(piece)
            at += len(piece)

    def _add_record(self, source: Source, record: RecordBounds, data: bytes) -> None:
        """Add a record that is not a key to all parts, or to none."""
        name = string_at(data, 1)[0] if record.op == grammar.OP_AUX else b""
        if record.op in (grammar.OP_FUNCTION2, grammar.OP_MODULE_AUX, grammar.OP_HASH_TEMPLATE) or name == _SCRIPT_AUX:
            if data not in self._common:
                self._check_common(record.op, data)
                self._common.add(data)
                for part in self._parts:
                    part.add_common(data)
        elif record.op == grammar.OP_SLOT_IMPORT:
            source.left_out["slot import"] += 1
        elif record.op == grammar.OP_FUNCTION_PRE_GA:
            source.left_out["function library of a Redis 7.0 release candidate, which no released server loads"] += 1
        elif record.op == grammar.OP_AUX and name != SLOT_INFO_AUX:
            text = name.decode("utf-8", "backslashreplace")
            if text not in KEPT_AUX:
                source.left_out[f"aux field {text}"] += 1

    def _check_common(self, op: int, data: bytes) -> None:
        if op == grammar.OP_HASH_TEMPLATE and self._dumps > 1:
            raise InputError(
                "dumps with hash templates cannot be cut together: each numbers its own; split one after the other"
            )
        library = _LIBRARY.match(string_at(data, 1)[0]) if op == grammar.OP_FUNCTION2 else None
        if library is None:
            return
        if library[1] in self._libraries:
            name = library[1].decode("utf-8", "backslashreplace")
            raise InputError(f"the dumps hold different libraries of the name {name}: a server loads one")
        self._libraries.add(library[1])
