"""The tasks of the key distribution: read units where Python runs, return partial sums.

Bulk bytes never cross to the JVM: a unit's keys are tallied in the worker and leave as at most 16384 slot rows, the largest keys,
and bounded tables of hash tags and prefixes (`schemas.interim.PARTIAL`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_slots import key_slots
from cluster_core.kernels.keys.list_lines import batch_of_keys
from schemas.interim import UnitFacts
from slotscope.sources.aof.files import AofUnit
from slotscope.sources.aof.tally import AofStateUnit, tally_log, tally_state
from slotscope.sources.keys.lists import KeyListReader, KeyListTask
from slotscope.sources.keys.partial_rows import PartialRows, TallyOptions, note_unread, rest_of
from slotscope.sources.keys.sums import KeySums, KnownLoads
from slotscope.sources.rdb.files import RdbTask
from slotscope.sources.rdb.tally import tally_dumps

Unit = RdbTask | KeyListTask | AofUnit | AofStateUnit


def _tally_lists(task: KeyListTask, part: int, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Read the lists of one task, one after the other, and yield their sums; raises DecodeError in strict mode."""
    rows = PartialRows(task.units[0].path, part, options)
    sums = KeySums(rows, options)
    readers = [KeyListReader(unit, options.lists, permissive=options.permissive) for unit in task.units]
    facts = [_read_list(reader, sums, options) for reader in readers]
    sums.note_missed(facts[0])
    yield rows.units(*facts)
    for reader in readers:
        if reader.bad:
            yield rows.bad(reader.bad, None)
    yield from sums.yield_rows()


def _read_list(reader: KeyListReader, sums: KeySums, options: TallyOptions) -> UnitFacts:
    """Add one list to the sums and return its facts."""
    part, facts = sums.begin(reader.unit.path, KnownLoads()), UnitFacts()
    try:
        for rows in reader:
            part.loads.sizes |= rows.sizes is not None
            if options.details:
                batch = batch_of_keys(rows.keys, rows.sizes, part.keys)
                slots = batch.slot
                sums.add(part, batch)
            else:
                slots = key_slots(rows.keys)
                sums.add_slots(part, slots, rows.sizes)
            if rows.ops is not None:
                sums.add_ops(part, slots, rows.ops)
    except DecodeError as error:
        if not options.permissive:
            raise
        reader.bad.append(error)
        reader.broke_off = True
    facts.kind, facts.file_bytes = reader.unit.kind, reader.unit.size
    _note_list(facts, reader, part.keys)
    sums.end(part, facts, is_whole=True)
    return facts


def _note_list(facts: UnitFacts, reader: KeyListReader, keys: int) -> None:
    """Add to *facts* the rows of a list that could not be read, or only in part; *keys* rows were read."""
    if not reader.bad:
        return
    unit = reader.unit
    note_unread(facts, reader.bad, None)
    rows = keys + len(reader.bad) - reader.kept
    if not reader.broke_off:
        facts.records, facts.unread_records = rows, min(len(reader.bad), rows)
    elif not keys and not unit.start and unit.size:
        facts.unread_bytes = unit.size
    elif reader.rows_total is not None:
        facts.records, facts.unread_records = reader.rows_total, reader.rows_total - keys + reader.kept
    elif unit.kind == "text":
        facts.unread_bytes = rest_of(unit.path, unit.end or unit.size, reader.bad[-1])


TALLIES: dict[type, Callable[[Any, int, TallyOptions], Iterator[pa.RecordBatch]]] = {
    RdbTask: tally_dumps,
    KeyListTask: _tally_lists,
    AofUnit: tally_log,
    AofStateUnit: tally_state,
}
"""Function that reads and sums up each kind of unit."""


def tally_units(
    numbers: Iterator[pa.RecordBatch], units: list[Unit], options: TallyOptions
) -> Iterator[pa.RecordBatch]:
    """Read the units that the rows of *numbers* index, one after the other, and yield the partial rows of each.

    Raises DecodeError at the first bad byte; with ``options.permissive`` earlier rows are kept and the error becomes
    a row of kind `BAD`.
    """
    _settle_worker()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            unit = units[number]
            yield from TALLIES[type(unit)](unit, number, options)


@cache
def _settle_worker() -> None:
    """Freeze all imported objects for the garbage collector, once a worker process.

    PySpark collects garbage after every task; with our modules loaded that takes 50 ms, as long as a small task.
    """
    gc.freeze()
