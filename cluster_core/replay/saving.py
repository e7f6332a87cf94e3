"""State of a replay as bytes and back, for the next files to go on from.

header    ``SLSR``, version (uint8), bytes of the body before compression (uint64, little-endian)
body      zlib: one value (`cluster_core.replay.state_writer`)
raw       bytes that are long, one after the other as the body names them: packets that wait, which are compressed by themselves
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

from cluster_core.errors import DecodeError, EncodeError
from cluster_core.replay.state_reader import Reader
from cluster_core.replay.state_writer import Writer

STATE_VERSION: Final = 11
"""Of the form; a state of another version is not read, and the replay begins anew."""
STATE_SOURCE: Final = "silver/replay_state"
"""Where states are kept, and what an error names that comes from one."""
BODY_BYTES_MAX: Final = 512 << 20
BODY_BYTES_FREE: Final = 16 << 20
INFLATION_MAX: Final = 200
"""A body may be so many times as long as its compressed form, beyond `BODY_BYTES_FREE`; states of recordings have 10 to 30."""
_HEADER: Final = struct.Struct("<4sBQ")
_MAGIC: Final = b"SLSR"


def save(value: object) -> bytes:
    """Return *value* as compressed bytes; raises EncodeError for what has no place in a state."""
    writer = Writer()
    try:
        writer.write(value)
    except RecursionError as error:
        raise EncodeError("a state that is nested too deeply") from error
    body = b"".join(writer.pieces)
    return b"".join((_HEADER.pack(_MAGIC, STATE_VERSION, len(body)), zlib.compress(body, 3), *writer.raw))


def load(data: bytes, *, source: str = "<state>") -> Any:
    """Return what `save` was given; raises DecodeError for bytes that are no such state."""
    try:
        return Reader(*_inflate(data)).whole()
    except DecodeError as error:
        raise DecodeError(error.reason, offset=error.offset, source=source) from error
    except (
        zlib.error,
        struct.error,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DecodeError(f"not a state of a replay: {error}", offset=0, source=source) from error


def _inflate(data: bytes) -> tuple[bytes, bytes]:
    """The body, and what stands behind it."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC or data[4] != STATE_VERSION:
        raise DecodeError("not a state of this version of the program", offset=0)
    size = _HEADER.unpack_from(data)[2]
    if size > min(BODY_BYTES_MAX, BODY_BYTES_FREE + INFLATION_MAX * len(data)):
        raise DecodeError(f"a state that says to hold {size} bytes", offset=5)
    unpacked = zlib.decompressobj()
    body = unpacked.decompress(data[_HEADER.size :], size + 1)
    if len(body) != size or not unpacked.eof:
        raise DecodeError("a state of another length than it says", offset=len(data))
    return body, unpacked.unused_data
