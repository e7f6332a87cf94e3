"""Names that are bytes as text columns: the batch twin of `slotscope.runtime.text.shown`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slotscope.runtime.text import shown

TEXT_LENGTH_MAX = 1000
"""Characters of a text column; a longer name loses its middle, as it does in reports."""
_PLAIN = rf"^[!-\[\]-~]([ -\[\]-~]{{0,{TEXT_LENGTH_MAX - 2}}}[!-\[\]-~])?$"
"""Names that need no escape: printable ASCII without backslash and without a space at either end."""


def key_text(name: bytes) -> str:
    """Return *name* for a text column: escaped as in reports, whole up to `TEXT_LENGTH_MAX` characters."""
    return shown(name, TEXT_LENGTH_MAX)


def key_texts(names: pa.Array) -> pa.Array:
    """Return `key_text` of each of *names* (Arrow ``binary``); null stays null.  Plain names make no Python object."""
    if names.null_count == len(names):
        return pa.nulls(len(names), pa.string())
    plain = pc.fill_null(pc.match_substring_regex(names, _PLAIN), True)
    if pc.all(plain).as_py() is not False:
        return names.cast(pa.string())
    odd = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    escaped = pa.array([key_text(name) for name in names.take(pa.array(odd)).to_pylist()], pa.string())
    safe = pc.if_else(plain, names, pa.scalar(None, names.type)).cast(pa.string())
    return pc.replace_with_mask(safe, pc.invert(plain), escaped)
