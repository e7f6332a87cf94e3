"""How kernels are compiled: to machine code that runs without the GIL and is kept in numba's file cache."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numba

if sys.byteorder != "little":
    raise ImportError("the kernels read words whose first byte is the lowest; this machine orders bytes the other way")


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function; *options* are numba's own (``inline``, ``boundscheck`` …)."""
    settings: dict[str, Any] = {"cache": True, "nogil": True, **options}
    return numba.njit(**settings)  # type: ignore[no-any-return]
