"""State of a replay as bytes, for the next files to continue from.

The bytes are ``SLSR``, a format version (uint8), and a compressed pickle.  States are as trusted as the program:
everyone who can write the tables of a root can run code in its jobs.
"""

from __future__ import annotations

import pickle
import zlib
from typing import Any, Final

from cluster_core.errors import DecodeError

STATE_VERSION: Final = 14
"""Format version; other versions are not read, and the replay restarts.  Raise it when a class of a state changes."""
STATE_SOURCE: Final = "silver/replay_state"
"""Where states are stored; errors name it."""
_HEADER: Final = b"SLSR" + bytes([STATE_VERSION])
_LEVEL: Final = 1
_DAMAGE: Final = (
    zlib.error, pickle.UnpicklingError, EOFError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, ImportError,
    RecursionError, MemoryError,
)  # fmt: skip
"""Errors of a damaged pickle, or of one with classes of another program."""


def save(value: object) -> bytes:
    """Return *value* as compressed bytes."""
    return _HEADER + zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _LEVEL)


def load(data: bytes, *, source: str = "<state>") -> Any:
    """Return the value passed to `save`; raises DecodeError for bytes of another format version or damaged bytes."""
    if not data.startswith(_HEADER):
        raise DecodeError("not a state of this version of the program", offset=0, source=source)
    try:
        return pickle.loads(zlib.decompress(data[len(_HEADER) :]))
    except _DAMAGE as error:
        raise DecodeError(f"not a state of a replay: {error}", offset=0, source=source) from error
