"""Equal headers are folded many at a time, with the results of single headers."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from cluster_core.incidents.header_claims import ClaimFolder, SentHeader
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.replay.saving import load
from slotscope.pipelines.bus.headers import Basis, HeaderStates, fold_nodes

SECOND = 1_000_000_000
TIMEOUT_MS = 1000
THRESHOLDS = Thresholds(TIMEOUT_MS * 1_000_000)
NAMES = (
    "sender", "ts_ns", "ref", "flags", "replicaof", "current_epoch", "config_epoch", "slots", "state", "repl_offset",
)  # fmt: skip
TEXTS = ("sender", "replicaof")


def headers(seed: int) -> list[tuple]:
    """Of three nodes: mostly equal headers; now and then others, a silence, a clock, an epoch or an offset that goes back."""
    chance, rows, often = random.Random(seed), [], 0.02
    for node in ("a" * 40, "b" * 40, "c" * 40):
        ts_ns, master, epoch, slots, state, offset = SECOND, True, 5, 1, 0, 0
        for ref in range(chance.randint(1, 500)):
            ts_ns += chance.randint(0, SECOND // 4) if chance.random() > often else chance.choice((-SECOND, 5 * SECOND))
            master = master if chance.random() > often else not master
            slots = slots if chance.random() > often else 1 - slots
            state = state if chance.random() > often / 2 else 1 - state
            offset += chance.randint(0, 3) if chance.random() > often else -20
            epoch += chance.random() < often / 2
            flags = (0x11 if master else 0x12) | (0x4 if chance.random() < often / 4 else 0)
            stale = epoch - (chance.random() < often)
            master_id = "" if master else "d" * 40
            rows.append((node, ts_ns, ref, flags, master_id, stale, 4, slots, state, max(offset, 0)))
    return rows


def batches(rows: list[tuple], size: int) -> list[pa.RecordBatch]:
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [
        pa.record_batch(
            [
                pa.array(column, pa.string() if name in TEXTS else pa.int64())
                for name, column in zip(NAMES, zip(*part, strict=True), strict=True)
            ],
            NAMES,
        )
        for part in parts
    ]


def notes(rows: list[tuple], basis: Basis, states: HeaderStates) -> list[tuple]:
    result = [note for batch in fold_nodes(iter(batches(rows, 137)), basis, states) for note in batch.to_pylist()]
    return [(note["kind"], note["texts"], note["numbers"], note["state"]) for note in result]


@pytest.mark.parametrize("seed", range(12))
def test_headers_in_stretches_give_the_rows_of_single_headers(seed) -> None:
    rows = headers(seed)
    basis = Basis(TIMEOUT_MS, True, 0, max(row[1] for row in rows))
    settled = random.Random(seed).randint(0, 300)

    actual = notes(rows, basis, HeaderStates(0, settled))

    expected = []
    for node in sorted({row[0] for row in rows}):
        plain, state = ClaimFolder(node, THRESHOLDS), ClaimFolder(node, THRESHOLDS)
        for _, *fields in (row for row in rows if row[0] == node):
            plain.feed(SentHeader(*fields))
            if fields[1] < settled:
                state.feed(SentHeader(*fields))
        expected.append((plain.finish(basis.last_ns), state.finish(basis.last_ns)))
    states = [load(note[3], source="test").finish(basis.last_ns) for note in actual if note[0] == "state"]
    assert states == [state_row for _, state_row in expected]
    kinds = [note[2] for note in actual if note[0] != "state"]
    one_by_one = [
        [int(value) for value in span if not isinstance(value, str)] for spans, _ in expected for span in spans
    ]
    assert kinds == one_by_one
