"""The plain bytes of a file at hand as an array: those of a local file are mapped, others are put into a local file first."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from slotscope.sources.files import compression_of, is_uri, read_pieces

_PIECE_BYTES = 4 << 20


@contextmanager
def local_file(path: str, folder: str | None = None) -> Iterator[str]:
    """Give the path of a local, uncompressed file with the bytes of *path*: itself, or a copy in *folder* that is gone afterwards."""
    if not is_uri(path) and compression_of(path) is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="slotscope-", dir=folder) as made:
        copy = os.path.join(made, "plain")
        with open(copy, "wb") as out:
            for piece in read_pieces(path, _PIECE_BYTES):
                out.write(piece)
        try:
            yield copy
        except DecodeError as error:
            if error.source != copy:
                raise
            raise type(error)(error.reason, offset=error.offset, source=path) from error


def mapped_bytes(path: str) -> NDArray[np.uint8]:
    """Return the bytes of a local file; they are read when they are looked at."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, np.uint8)
        # a copy of one's own, so that kernels take it for an array like any other; none of it is written to
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
