"""Options of the tasks of the key distribution, and the rows that they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.load.key_use import LfuSettings
from cluster_core.memory.model import MemorySettings
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.node import Topology
from schemas.interim import BAD, FACTS, PARTIAL, UNIT, UnitFacts
from schemas.table import LONG, several
from slotscope.sources.files import compression_of
from slotscope.sources.keys.lists import KeyListOptions
from slotscope.sources.keys.text import key_texts

if TYPE_CHECKING:
    from slotscope.servers.dump_link import DumpOptions

BAD_ROWS_MAX = 10_000
"""Bad records of one unit beyond this are counted in its last row, not listed."""
_FACT_NAMES = frozenset(FACTS.names)


GROUPS_LISTED = 1000
"""Hash tags and prefixes in the tables."""


@dataclass(frozen=True, slots=True)
class TallyOptions:
    """Settings of a tally; with *advice* values are measured for `slotscope advise`."""

    details: bool = True
    permissive: bool = False
    advice: bool = False
    top: int = 100
    top_per_slot: int = 3
    groups_max: int = 65536
    separators: bytes = b":"
    prefix_depth: int = 3
    topology: Topology | None = None
    lists: KeyListOptions = field(default_factory=KeyListOptions)
    memory: MemorySettings | None = None
    lfu: LfuSettings = field(default_factory=LfuSettings)
    live: DumpOptions | None = field(default=None, repr=False)


def amount_lists(amounts: NDArray[np.int64]) -> pa.Array:
    """Return a list a row of *amounts*."""
    return pa.FixedSizeListArray.from_arrays(pa.array(amounts.ravel()), amounts.shape[1]).cast(several(LONG))


class PartialRows:
    """Makes the rows (`schemas.interim.PARTIAL`) of unit number *part*, which is a piece of *source*."""

    def __init__(self, source: str, part: int, options: TallyOptions) -> None:
        self._source = source
        self._part = part
        owners = options.topology.slot_map().owners() if options.topology else [None] * SLOT_COUNT
        ids = [None, *sorted({owner for owner in owners if owner})]
        numbers = {owner: number for number, owner in enumerate(ids)}
        self.owner_of = np.array([numbers[owner or None] for owner in owners], np.int64)
        """The number of each slot's owner, 0 for nobody."""
        self._owner_ids = pa.array(ids, pa.string())

    @property
    def source(self) -> str:
        """Default source of rows."""
        return self._source

    def owner_ids_of(self, numbers: NDArray[np.int64]) -> pa.Array:
        """The node ids of owners by their numbers, null for nobody."""
        return self._owner_ids.take(pa.array(numbers))

    def of(self, kind: int, count: int, **columns: Any) -> pa.RecordBatch:
        """A batch of *count* rows; a column not given is null."""
        if "slot" in columns:
            columns["owner_id"] = self.owner_ids_of(self.owner_of[columns["slot"].to_numpy()])
        texts = {f"{name}_text": key_texts(columns[name]) for name in ("name", "hash_tag") if name in columns}
        given = {
            "kind": pa.array(np.full(count, kind, np.int32)),
            "source": pa.array([self._source] * count, pa.string()),
            "part": pa.array(np.full(count, self._part, np.int32)),
            **columns,
            **texts,
        }
        schema = PARTIAL
        arrays = [
            given[name].cast(type_) if name in given else pa.nulls(count, type_)
            for name, type_ in zip(schema.names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def units(self, *units: UnitFacts) -> pa.RecordBatch:
        """Return one row of facts a unit; a unit without a source gets the default one."""
        sources = [facts.source or self._source for facts in units]
        fact_rows = [
            {name: value for name, value in asdict(facts).items() if name in _FACT_NAMES}
            | {"aux": list(facts.aux.items())}
            for facts in units
        ]
        return self.of(
            UNIT, len(units), source=pa.array(sources, pa.string()),
            name=pa.array([source.encode("utf-8", "surrogateescape") for source in sources], pa.binary()),
            keys=pa.array([facts.keys for facts in units], pa.int64()), text=pa.array([facts.kind for facts in units], pa.string()),
            serialized_bytes=pa.array([facts.file_bytes for facts in units], pa.int64()), facts=pa.array(fact_rows, FACTS),
        )  # fmt: skip

    def bad(self, bad: list[DecodeError], skipped_bytes: int | None) -> pa.RecordBatch:
        """Return rows of unreadable records; *skipped_bytes* were passed over because of them."""
        listed = bad[:BAD_ROWS_MAX]
        reasons = [error.reason for error in listed]
        if len(bad) > BAD_ROWS_MAX:
            reasons[-1] = f"{len(bad) - BAD_ROWS_MAX + 1} further bad records are not listed"
        return self.of(
            BAD, len(listed), source=pa.array([error.source for error in listed], pa.string()),
            offset=pa.array([error.offset for error in listed], pa.int64()), text=pa.array(reasons),
            serialized_bytes=pa.array([skipped_bytes] * len(listed), pa.int64()),
        )  # fmt: skip

    def groups(self, kind: int, tally: GroupTally, count: str, **more: pa.Array) -> pa.RecordBatch:
        """Return the heavy groups of *tally*, with counts in the column *count*."""
        counts, sizes, memory, expires, keys_error, bytes_error, memory_error, depth = tally.counts().T
        columns = {count: pa.array(counts), **({"expires": pa.array(expires)} if count == "keys" else {}), **more}
        return self.of(
            kind, len(counts), name=tally.names(), serialized_bytes=pa.array(sizes), memory_bytes=pa.array(memory),
            keys_error=pa.array(keys_error), bytes_error=pa.array(bytes_error), memory_error=pa.array(memory_error),
            number=pa.array(depth), **columns,
        )  # fmt: skip


def rest_of(path: str, end: int, error: DecodeError, records: int = 1) -> int | None:
    """Return the bytes from *error* to *end*, none of them read; None where offsets are not those of the file as it is stored."""
    if compression_of(path) is not None:
        return None if records else end
    return max(end - error.offset, 0)


def note_unread(facts: UnitFacts, bad: Sequence[DecodeError], unread_bytes: int | None) -> None:
    """Say how many places could not be read, and how many bytes were passed over because of them."""
    if bad:
        facts.bad_records = len(bad)
        facts.unread_bytes = unread_bytes
        facts.ends_early = any(isinstance(error, TruncatedError) for error in bad)
