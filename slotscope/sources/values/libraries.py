"""The function libraries of a dump, which servers write before its keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import OP_FUNCTION2
from cluster_core.rdb.skim import RecordSkimmer
from cluster_core.rdb.strings import string_at

_PIECE_BYTES = 1 << 16
"""So much is read at a time: of the keys behind the libraries no more than that, beside the rest of the first one."""


def libraries_before_keys(data: NDArray[np.uint8], *, source: str) -> list[bytes]:
    """Return the code of the function libraries that stand before the first key of a file with the bytes *data*, up to its first error."""
    skimmer = RecordSkimmer(source, check_crc=False)
    found: list[bytes] = []
    at = 0
    while not skimmer.done:
        ahead = skimmer.skippable()
        skimmer.skipped(ahead)
        at += ahead
        room = skimmer.room()[:_PIECE_BYTES]
        piece = data[at : at + len(room)]
        room[: len(piece)] = piece.data
        skimmer.filled(len(piece))
        at += len(piece)
        try:
            for part in skimmer.parts():
                if isinstance(part, KeyBatch):
                    return found
                if part.op == OP_FUNCTION2:
                    found.append(string_at(data[part.begin : part.end].tobytes(), 1))
        except DecodeError:
            break
    return found
