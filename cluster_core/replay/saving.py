"""Save the state of a replay as bytes, to continue with later files.

The bytes are ``SLSR``, a format version (uint8), and a compressed pickle restricted to classes of `cluster_core`.
"""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any, Final

from cluster_core.errors import DecodeError

STATE_VERSION: Final = 27
"""Format version; other versions are not read, and the replay restarts.  Raise it when a class of a state changes."""
STATE_SOURCE: Final = "silver/replay_state"
"""Storage of states, for error messages."""
_HEADER: Final = b"SLSR" + bytes([STATE_VERSION])
_LEVEL: Final = 1
_DAMAGE: Final = (
    zlib.error, pickle.UnpicklingError, EOFError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, ImportError,
    RecursionError, MemoryError,
)  # fmt: skip
"""Errors of a damaged pickle, or of one with classes of another program."""


_FOREIGN_NAMES: Final = {
    ("builtins", "bytearray"), ("builtins", "frozenset"), ("builtins", "set"), ("collections", "deque"), ("random", "Random"),
    ("numpy", "dtype"), ("numpy", "ndarray"), ("numpy", "record"), ("numpy.rec", "recarray"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy._core.numeric", "_frombuffer"),
}  # fmt: skip
"""Names outside `cluster_core` that a state may use."""


def _public(kind: type, name: str) -> Any:
    """Return a member of an enum or another public name of a class of `cluster_core`; pickles name it by `getattr`."""
    if not isinstance(kind, type) or not kind.__module__.startswith("cluster_core.") or name.startswith("_"):
        raise pickle.UnpicklingError(f"{kind}.{name} is not allowed in a state")
    return getattr(kind, name)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function that is defined in `cluster_core`, or a name in `_FOREIGN_NAMES`."""
        if (module, name) == ("builtins", "getattr"):
            return _public
        if (module, name) in _FOREIGN_NAMES:
            return super().find_class(module, name)
        if module.startswith("cluster_core.") and "." not in name:
            class_ = super().find_class(module, name)
            if getattr(class_, "__module__", "") == module:
                return class_
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a state")


def save(value: object) -> bytes:
    """Return *value* as compressed bytes."""
    return _HEADER + zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _LEVEL)


def load(data: bytes, *, source: str = "<state>") -> Any:
    """Return the value passed to `save`; raises DecodeError for bytes of another format version or damaged bytes."""
    if not data.startswith(_HEADER):
        raise DecodeError("not a state of this version of the program", offset=0, source=source)
    try:
        return _Unpickler(io.BytesIO(zlib.decompress(data[len(_HEADER) :]))).load()
    except _DAMAGE as error:
        raise DecodeError(f"not a state of a replay: {error}", offset=0, source=source) from error
