"""Headers of all messages as spans of equal claims of every node.

DuckDB reads messages one node after the other; their spans are few.  A fold continues from the states of the nodes and reads new messages only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.incidents.header_claims import ClaimFolder, ClaimSpan, SentHeader
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.replay.saving import STATE_SOURCE, load, save
from cluster_core.topology.nodes_text import NODE_ID
from schemas.history import BUS_MESSAGES
from slotscope.runtime.storage.runs import Run

LARGEST = 2**63 - 1
"""Epochs and offsets have 64 bits without sign on the wire; a greater one counts as this."""
NOTE = pa.schema(
    {"kind": pa.string(), "texts": pa.list_(pa.string()), "numbers": pa.list_(pa.int64()), "state": pa.binary()}
)
"""A span with its texts and numbers, or the state of a node."""
CLAIM, STATE = "claim", "state"
_Note = tuple[str, list[str], list[int], bytes | None]


class Basis(NamedTuple):
    """Parameters of a replay: the node timeout, and the times of its first and last evidence."""

    node_timeout_ms: int
    knows_timeout: bool
    first_ns: int
    last_ns: int


def basis_of(facts: Mapping[str, Any]) -> Basis:
    """The basis, by the facts of the task that reads."""
    return Basis(
        facts["node_timeout_ms"], facts["node_timeout_from"] != "default", facts["first_ns"] or 0, facts["last_ns"] or 0
    )


@dataclass(frozen=True, slots=True)
class HeaderStates:
    """States by node after the messages before *first_id*; new states are kept of messages before *settled_id*, none if negative."""

    first_id: int
    settled_id: int
    of_node: Mapping[str, bytes] = field(default_factory=dict)

    def settled_by(self, facts: Mapping[str, Any]) -> HeaderStates:
        """Return these with the settled messages of a task; no states are kept while the node timeout is uncertain."""
        return replace(self, settled_id=facts["settled_messages"] if facts["settled_by"] else -1)


NO_STATES = HeaderStates(0, -1)
"""Read all messages and keep no states."""


class Headers(NamedTuple):
    """Spans of all headers, and the states to continue from."""

    spans: list[ClaimSpan]
    states: dict[str, bytes]


ROWS_A_BATCH = 100_000
_SENDER, _TS, _REF, _OFFSET = 0, 1, 2, 9
"""Places in `HEADERS`."""
_SIGNED = f"CAST(least(coalesce({{0}}, 0), {LARGEST}) AS BIGINT) AS {{0}}"
HEADERS = (
    "sender",
    "ts_ns",
    "message_id AS ref",
    "CAST(node_flags AS BIGINT) AS flags",
    "coalesce(replicaof, '') AS replicaof",
    _SIGNED.format("current_epoch"),
    _SIGNED.format("config_epoch"),
    "bitmap_id AS slots",
    "CAST(state AS BIGINT) AS state",
    _SIGNED.format("repl_offset"),
)
"""Columns of a message, in SQL of DuckDB: the sender, then as in `SentHeader`."""
IS_WHOLE = (
    "NOT light AND node_flags IS NOT NULL AND state IS NOT NULL AND bitmap_id IS NOT NULL "
    f"AND regexp_like(sender, '^(?:{NODE_ID.pattern})$')"
)
"""Which messages have a header that says all that."""


def read_headers(run: Run, basis: Basis, states: HeaderStates = NO_STATES) -> Headers:
    """Read the headers of the snapshot of *run*."""
    return headers_of(message_notes(run, basis, states), basis, states)


def headers_of(batches: Iterator[pa.RecordBatch], basis: Basis, states: HeaderStates) -> Headers:
    """Return headers from the `NOTE` rows of new ones and the *states* of nodes without new ones."""
    headers = Headers([], {})
    for batch in batches:
        for kind, texts, numbers, state in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if kind == CLAIM:
                headers.spans.append(_claim_span(texts, numbers))
            else:
                headers.states[texts[0]] = state
    for node, state in states.of_node.items():
        if node not in headers.states:  # it said nothing since
            headers.spans.extend(_loaded(node, state).finish(basis.last_ns))
            headers.states[node] = state
    return headers


def task_notes(facts: Mapping[str, Any], run: Run, states: HeaderStates) -> Iterator[pa.RecordBatch]:
    """Yield notes on the headers of a task's stored messages; *facts* are those of the task."""
    return message_notes(run, basis_of(facts), states.settled_by(facts))


def message_notes(run: Run, basis: Basis, states: HeaderStates) -> Iterator[pa.RecordBatch]:
    """Yield notes on new headers; messages before *states* are settled and stored."""
    where = f"{IS_WHOLE} AND message_id >= {states.first_id}"
    sql = f"SELECT {', '.join(HEADERS)} FROM bus_messages WHERE {where} ORDER BY sender, ref"
    headers = run.query(sql, BUS_MESSAGES, stored=states.first_id == 0)
    return fold_nodes(iter(headers.to_batches(ROWS_A_BATCH)), basis, states)


def fold_nodes(batches: Iterator[pa.RecordBatch], basis: Basis, states: HeaderStates) -> Iterator[pa.RecordBatch]:
    """Fold the headers (`HEADERS`) of one node after the other, in order of their messages; yield `NOTE`."""
    thresholds = Thresholds(basis.node_timeout_ms * 1_000_000)
    node: ClaimFolder | None = None
    is_saved = False
    for batch in batches:
        notes: list[_Note] = []
        read = _Columns(batch)
        for start, end in read.stretches(thresholds.silence_ns, states.settled_id):
            sender, header = read.row(start)
            if node is None or sender != node.node:
                if node is not None:
                    notes += _closing(node, basis, is_saved=is_saved)
                known = states.of_node.get(sender)
                node = ClaimFolder(sender, thresholds) if known is None else _loaded(sender, known)
                is_saved = states.settled_id < 0
            if not is_saved and header.ref >= states.settled_id:
                notes.append((STATE, [sender], [], save(node)))
                is_saved = True
            node.feed(header)
            if end - start > 1 and not node.feed_alike(*read.alike(start + 1, end)):
                for row in range(start + 1, end):
                    node.feed(read.row(row)[1])
        yield _notes_batch(notes)
    if node is not None:
        yield _notes_batch(list(_closing(node, basis, is_saved=is_saved)))


class _Columns:
    """A batch of headers as dictionary codes."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        columns = [_coded(batch.column(at)) for at in range(batch.num_columns)]
        self._texts = [texts for texts, _ in columns]
        self._numbers = [numbers for _, numbers in columns]
        self._ts_ns, self._ref, self._offset = (self._numbers[at] for at in (_TS, _REF, _OFFSET))

    def row(self, row: int) -> tuple[str, SentHeader]:
        """Return a header and its sender."""
        values: list[Any] = [
            int(numbers[row]) if texts is None else texts[numbers[row]]
            for texts, numbers in zip(self._texts, self._numbers, strict=True)
        ]
        return values[_SENDER], SentHeader(*values[_TS:])

    def stretches(self, silence_ns: int, settled_id: int) -> Iterator[tuple[int, int]]:
        """Yield starts and ends of runs of headers of one node that agree apart from times and offsets, without silence."""
        count = len(self._ref)
        is_first = np.zeros(count, np.bool_)
        is_first[:1] = True
        for at, numbers in enumerate(self._numbers):
            if at not in (_TS, _REF, _OFFSET):
                is_first[1:] |= numbers[1:] != numbers[:-1]
        pauses_ns = np.diff(self._ts_ns)
        is_first[1:] |= (pauses_ns < 0) | (pauses_ns > silence_ns)
        is_first[1:] |= (self._ref[1:] >= settled_id) != (self._ref[:-1] >= settled_id)
        edges = [*np.flatnonzero(is_first).tolist(), count]
        return pairwise(edges)

    def alike(self, start: int, end: int) -> tuple[SentHeader, int, int]:
        """Return the arguments of `ClaimFolder.feed_alike` for these rows."""
        return self.row(end - 1)[1], end - start, int(self._offset[start:end].max())


def _coded(column: pa.Array) -> tuple[list[str] | None, NDArray[np.int64]]:
    """Return the distinct texts of a column and the code of each row; a column of numbers stays as it is."""
    if pa.types.is_integer(column.type):
        return None, column.to_numpy(zero_copy_only=False)
    coded = column.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _loaded(node: str, state: bytes) -> ClaimFolder:
    folder = load(state, source=f"{STATE_SOURCE} of the headers of {node}")
    assert isinstance(folder, ClaimFolder)
    return folder


def _closing(node: ClaimFolder, basis: Basis, *, is_saved: bool) -> Iterator[_Note]:
    if not is_saved:
        yield STATE, [node.node], [], save(node)
    for span in node.finish(basis.last_ns):
        yield CLAIM, [span.node, span.replicaof], [int(value) for value in span if not isinstance(value, str)], None


def _notes_batch(notes: list[_Note]) -> pa.RecordBatch:
    columns = [pa.array([note[at] for note in notes], kind) for at, kind in enumerate(NOTE.types)]
    return pa.RecordBatch.from_arrays(columns, schema=NOTE)


def _claim_span(texts: list[str], numbers: list[int]) -> ClaimSpan:
    """Return the span of a row that `_closing` made."""
    node, replicaof = texts
    from_ns, to_ns, first_ref, last_ref, messages, flags, *claims, silent_after = numbers
    current, config, slots, state, first_offset, last_offset = claims
    return ClaimSpan(
        node, from_ns, to_ns, first_ref, last_ref, messages, flags, replicaof, current, config, slots, state,
        first_offset, last_offset, bool(silent_after),
    )  # fmt: skip
