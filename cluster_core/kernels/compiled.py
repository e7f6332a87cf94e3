"""How kernels are compiled: to machine code that runs without the GIL and is kept from one process to the next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numba

from cluster_core.kernels.code_cache import CodeCache

if sys.byteorder != "little":
    raise ImportError("the kernels read words whose first byte is the lowest; this machine orders bytes the other way")


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function at its first call; *options* are numba's own (``inline``, ``boundscheck`` …)."""
    settings: dict[str, Any] = {"nogil": True, **options}

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher: Any = numba.njit(**settings)(function)
        dispatcher._cache = CodeCache(function)
        return dispatcher  # type: ignore[no-any-return]

    return compiled
