"""Compile kernels to machine code that runs without the GIL and is cached between processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaNotImplementedError
from numba.extending import typeof_impl
from numba.np import numpy_support

from cluster_core.kernels.code_cache import KNOWN_MODULES, CodeCache

if sys.byteorder != "little":
    raise ImportError("the kernels need a little-endian machine; this one is big-endian")

_TYPES: Any = typeof_impl
_ARRAYS: Any = numpy_support
_WHOLE_TYPE = _TYPES.dispatch(np.ndarray)


def _type_of_array(array: Any, context: Any) -> Any:
    """Return numba's type of an array, without loading masked arrays (40 ms)."""
    if "numpy.ma" in sys.modules:
        return _WHOLE_TYPE(array, context)
    try:
        kind = _ARRAYS.from_dtype(array.dtype)
    except NumbaNotImplementedError:
        return _WHOLE_TYPE(array, context)
    layout = _ARRAYS.map_layout(array)
    return numba.types.Array(kind, array.ndim, layout, readonly=not array.flags.writeable)


_TYPES.register(np.ndarray, _type_of_array)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function at its first call; *options* are numba's own (``inline``, ``boundscheck`` …)."""
    settings: dict[str, Any] = {"nogil": True, **options}

    def compiling(function: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher: Any = numba.njit(**settings)(function)
        dispatcher._cache = CodeCache(function)
        return dispatcher  # type: ignore[no-any-return]

    return compiling


def borrowing(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a step of a walk that only borrows arrays, without reference counts and index checks."""
    return njit(boundscheck=False, _nrt=False, **options)


def compiled(module: ModuleType, *names: str, known: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Compile plain functions of *module*, each after its callees; return their globals with the compiled functions.

    *known* are compiled functions of other modules that they call.
    """
    callees = known or {}
    homes = {function.__module__ for function in callees.values() if hasattr(function, "__module__")}
    seen = {**vars(module), **callees, KNOWN_MODULES: homes}
    for name in names:
        plain = seen[name]
        twin = FunctionType(plain.__code__, seen, name, plain.__defaults__)
        twin.__module__ = module.__name__
        twin.__qualname__ = name
        seen[name] = njit(**options)(twin)
    return seen
