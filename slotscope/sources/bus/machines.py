"""Both tasks of a replay at once: machines go on with the evidence as soon as it is read, in a process beside the one that reads."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pyarrow as pa

from slotscope.sources.bus.captured import BEGIN, BULK, EVIDENCE, STATE
from slotscope.sources.bus.observers import ROWS_PER_BATCH, Gathered, Process, ReplayOptions
from slotscope.sources.bus.side_threads import ahead

MACHINES_MAX: Final = 200
"""So many machines are in memory at once; a machine is as large as its cluster has nodes."""
BATCHES_AHEAD: Final = 256
"""So many batches, of about a megabyte each, are taken over before the machines come to them: who reads need not wait."""
_COLLECTED_AFTER: Final = (20_000, 20, 20)


def replay_beside(
    batches: Iterator[pa.RecordBatch],
    profile: str | None,
    states: Mapping[str, bytes],
    machines_max: int = MACHINES_MAX,
    batches_ahead: int = BATCHES_AHEAD,
) -> Iterator[pa.RecordBatch]:
    """Replay what a `capture_task` hands out while it goes on; yield what the machines say (`BELIEFS`), and all else as it is.

    *states* are those of processes that were met before.  Evidence of processes beyond *machines_max* is handed on.
    """
    with _rare_collections():
        yield from _replay(ahead(batches, batches_ahead), ReplayOptions(0, 0, profile), states, machines_max)


def _replay(
    batches: Iterator[pa.RecordBatch], options: ReplayOptions, states: Mapping[str, bytes], machines_max: int
) -> Iterator[pa.RecordBatch]:
    gathered = Gathered(keeps_states=False)
    held: list[pa.RecordBatch] = []
    machines = {part: Process(part, options, gathered, state) for part, state in states.items()}
    for batch in batches:
        kinds, phases, parts, numbers = (batch.column(at).to_pylist() for at in range(4))
        passed = []
        for row, (kind, phase, part, number) in enumerate(zip(kinds, phases, parts, numbers, strict=True)):
            if kind == BEGIN:
                options = replace(options, **json.loads(batch.column("blob")[row].as_py()))
            elif kind == EVIDENCE and (part in machines or len(machines) < machines_max):
                if part not in machines:
                    machines[part] = Process(part, options, gathered)
                machines[part].take(phase, batch.column("blob")[row].as_py())
            elif kind in BULK:
                passed.append(row)
            else:
                held.append(batch.slice(row, 1))
                if kind == STATE:
                    gathered.keeps_states = number > 0
        if passed:
            yield batch.take(pa.array(passed))
        if gathered.count >= ROWS_PER_BATCH:
            yield gathered.batch()
    yield from held  # a large row would wait, and the machines with it, until the JVM comes back from who reads
    for machine in machines.values():
        machine.finish()
    if gathered.count:
        yield gathered.batch()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for garbage less often: what machines make lives as long as they do, and to go through it again and again takes a tenth of their time."""
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
