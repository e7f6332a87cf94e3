"""Arrays as plain values and bytes: what a state of a replay keeps of them.  The dtypes are of a list, none of which holds an object."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from cluster_core.errors import EncodeError

RECORD_BYTES_MAX: Final = 4096
_DTYPES: Final = frozenset("|b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f4 <f8".split())  # noqa: SIM905


class SavedArray(NamedTuple):
    """An array: *spec* is the dtype's name, or names, formats, offsets, bytes and alignment of its records; *raw* in C order."""

    spec: Any
    shape: tuple[int, ...]
    has_attributes: bool
    raw: bytes


def saved_array(value: object) -> SavedArray | None:
    """Return *value* as plain values, None where it is no array; raises EncodeError for a dtype that is not of the list."""
    if not isinstance(value, np.ndarray):
        return None
    try:
        spec = _spec_of(value.dtype)
        same = _dtype_of(spec) == value.dtype and value.flags.c_contiguous
    except (ValueError, TypeError):
        same = False
    if not same:
        raise EncodeError(f"an array of {value.dtype} has no place in a state")
    return SavedArray(spec, value.shape, isinstance(value, np.recarray), value.tobytes())


def restored_array(saved: SavedArray) -> Any:
    """Return the array, which may be written to; ValueError or TypeError for another dtype, or bytes that do not fill the shape."""
    found = np.frombuffer(saved.raw, _dtype_of(saved.spec)).reshape(saved.shape).copy()
    return found.view(np.recarray) if saved.has_attributes else found


def _spec_of(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names] if dtype.fields else []
    formats, offsets = tuple(field[0].str for field in fields), tuple(field[1] for field in fields)
    return (dtype.names, formats, offsets, dtype.itemsize, dtype.isalignedstruct)


def _dtype_of(spec: Any) -> np.dtype[Any]:
    if isinstance(spec, str):
        if spec not in _DTYPES:
            raise ValueError(f"{spec[:20]!r} is no dtype of a state")
        return np.dtype(spec)
    names, formats, offsets, size, is_aligned = spec
    if not 0 < size <= RECORD_BYTES_MAX or not _DTYPES.issuperset(formats) or min(offsets) < 0:
        raise ValueError("a record of another form than those of a state")
    fields = {"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": size}
    return np.dtype((np.record, np.dtype(fields, align=bool(is_aligned))))  # type: ignore[call-overload]
