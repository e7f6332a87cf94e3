"""The one place where numba is imported: `njit` compiles where numba is installed and is a no-op elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import numba

    HAVE_NUMBA = True
except ImportError:  # the plain twins run instead, slower
    HAVE_NUMBA = False


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function to machine code that runs without the GIL and is kept in numba's file cache.

    *options* are numba's own (``inline``, ``boundscheck`` …).  Returns the function unchanged where numba is missing.
    """
    if not HAVE_NUMBA:
        return lambda function: function
    settings: dict[str, Any] = {"cache": True, "nogil": True, **options}
    return numba.njit(**settings)  # type: ignore[no-any-return]
