"""State of a replay as bytes and back, for the next files to go on from.

A state is a pickle that only values of this package, of numpy and plain containers may be in: what was changed on disk
cannot name anything else.  Messages are kept as their bytes.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections import OrderedDict, deque
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.replay.sightings import readable_part
from cluster_core.wire.bus import Message, decode_message, decode_partial, encode_message

STATE_VERSION: Final = 3
"""Of the form; a state of another version is not read, and the replay begins anew."""
STATE_BYTES_MAX: Final = 2 << 30
_BUILTINS: Final = frozenset(
    "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple".split()  # noqa: SIM905
)
_NUMPY: Final = frozenset(
    {
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy", "recarray"),
        ("numpy", "record"),
        ("numpy.rec", "recarray"),
        ("numpy.rec", "record"),
        ("numpy", "bool_"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.numeric", "_frombuffer"),
    }
)
_FUNCTIONS: Final = frozenset({("cluster_core.replay.saving", "_whole"), ("cluster_core.replay.saving", "_part")})


def save(value: object) -> bytes:
    """Return *value* as compressed bytes."""
    out = io.BytesIO()
    _Pickler(out, protocol=5).dump(value)
    return zlib.compress(out.getbuffer(), 3)


def load(data: bytes, *, source: str = "<state>") -> Any:
    """Return what `save` was given; raises DecodeError for bytes that are no such state."""
    try:
        unpacked = zlib.decompressobj()
        raw = unpacked.decompress(data, STATE_BYTES_MAX)
        if unpacked.unconsumed_tail or not unpacked.eof:
            raise DecodeError("a state that is cut short or too large", offset=len(raw), source=source)
        return _Unpickler(io.BytesIO(raw)).load()
    except (zlib.error, pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, ImportError) as error:
        raise DecodeError(f"not a state of a replay: {error}", offset=0, source=source) from error


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Messages go as bytes; everything else as usual."""
        if type(value) is not Message:
            return NotImplemented
        raw = encode_message(value)
        if int.from_bytes(raw[4:8], "big") == len(raw):
            return _whole, (raw,)
        return _part, (raw, value.rest is None)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only what a state can hold."""
        if module == "builtins" and name in _BUILTINS:
            return super().find_class(module, name)
        if (module, name) in _NUMPY or (module, name) in _FUNCTIONS:
            return super().find_class(module, name)
        if module == "collections" and name in ("deque", "OrderedDict"):
            return {"deque": deque, "OrderedDict": OrderedDict}[name]
        if module == "copyreg" and name in ("_reconstructor", "__newobj__"):
            return super().find_class(module, name)
        if module.startswith("cluster_core.") and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} has no place in it")


def _whole(raw: bytes) -> Message:
    return decode_message(raw)


def _part(raw: bytes, as_far: bool) -> Message:
    """A message that was cut by the snap length, see `readable_part`."""
    message = decode_partial(raw)
    return readable_part(message) if as_far else message
