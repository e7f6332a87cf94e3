"""The tasks of the key distribution: read units where Python runs, return partial sums.

Bulk bytes never cross to the JVM: a unit's keys are tallied in the worker and leave as at most 16384 slot rows, the largest keys,
and bounded tables of hash tags and prefixes (`schemas.interim.PARTIAL`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa

from slotscope.sources.aof.files import AofUnit
from slotscope.sources.aof.state import AofStateUnit
from slotscope.sources.aof.state_tally import AofStateTally
from slotscope.sources.aof.tally import AofTally
from slotscope.sources.keys.list_tally import KeyListTally
from slotscope.sources.keys.lists import KeyListTask, KeyListUnit
from slotscope.sources.keys.partial_rows import TallyOptions, UnitTally
from slotscope.sources.rdb.files import RdbTask
from slotscope.sources.rdb.tally import RdbTally

Unit = RdbTask | KeyListTask | AofUnit | AofStateUnit

TALLIES: dict[type, type[UnitTally[Any]]] = {
    RdbTask: RdbTally,
    KeyListTask: KeyListTally,
    AofUnit: AofTally,
    AofStateUnit: AofStateTally,
}
"""What reads and sums up each kind of unit."""


def tally_units(
    numbers: Iterator[pa.RecordBatch], units: list[Unit], options: TallyOptions
) -> Iterator[pa.RecordBatch]:
    """Read the units that the rows of *numbers* index, one after the other, and yield the partial rows of each.

    Raises DecodeError at the first bad byte; with ``options.permissive`` what was read before it is kept and the error becomes
    a row of kind `BAD`.
    """
    _settle_worker()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            unit = units[number]
            yield from TALLIES[type(unit)](unit, number, options).run()


@cache
def _settle_worker() -> None:
    """Once a worker process: take what is imported by now out of the garbage collector's sight.

    PySpark collects garbage after every task; with our modules loaded that takes 50 ms, as long as a small task.
    """
    gc.freeze()


def tally_rows(batches: Iterator[pa.RecordBatch], source: str, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Yield the partial rows of keys that are a DataFrame already: columns ``key`` and, if known, ``size`` and ``ops``."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = context.partitionId() if context is not None else 0
    yield from KeyListTally(KeyListTask((KeyListUnit(source, "delta", 0),)), part, options).run_batches(batches)
