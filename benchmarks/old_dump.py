"""A dump of RDB version 9 cut out of a newer one, for readers that stopped there."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import ENCODINGS, KEY_TYPES
from cluster_core.rdb.skim import RdbSkimmer

_OLD_ENCODINGS = ("intset", "hashtable", "skiplist")


def cut_version_9(dump: Path, out: Path, keys: int) -> int:
    """Write the first *keys* records of *dump* whose layout is that of version 9 into *out*.

    Return how many there were.

    These are strings, and sets, hashes and sorted sets too large for a packed encoding; the checksum is left out (0).
    """
    taken = 0
    with open(dump, "rb") as source, open(dump, "rb") as records, open(out, "wb") as target:
        target.write(b"REDIS0009\xfe\x00")
        skimmer = RdbSkimmer(str(dump), check_crc=False)
        while not skimmer.done and taken < keys:
            ahead = skimmer.skippable()
            source.seek(ahead, 1)
            skimmer.skipped(ahead)
            skimmer.filled(source.readinto(skimmer.room()))
            for batch in skimmer.batches():
                for row in _old_rows(batch)[: keys - taken].tolist():
                    records.seek(int(batch.offset[row]))
                    target.write(records.read(int(batch.serialized_bytes[row])))
                    taken += 1
        target.write(b"\xff" + struct.pack("<Q", 0))
    return taken


def _old_rows(batch: KeyBatch) -> np.ndarray:
    strings = batch.type == KEY_TYPES.index("string")
    return np.flatnonzero(strings | np.isin(batch.encoding, [ENCODINGS.index(name) for name in _OLD_ENCODINGS]))
