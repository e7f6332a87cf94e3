"""Read, copy and compare raw bytes in kernels by whole words, with bounds checked by callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import cgutils
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit

Bytes = NDArray[np.uint8]


intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
_compare: Any = types.ExternalFunction("memcmp", types.intc(types.uint64, types.uint64, types.uint64))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


def _load(bits: int, result: Any, *, is_big: bool) -> Any:
    def load(typing_context: Any, data: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], *arguments)
            word = ir.IntType(bits)
            value = builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)
            if is_big:
                value = builder.bswap(value)
            return builder.zext(value, ir.IntType(64)) if bits < 64 else value

        return result(data, types.intp), build

    return intrinsic(load)


big16 = _load(16, types.int64, is_big=True)
big32 = _load(32, types.int64, is_big=True)
big64 = _load(64, types.uint64, is_big=True)
little32 = _load(32, types.int64, is_big=False)
word64 = _load(64, types.uint64, is_big=False)


@intrinsic
def address(typing_context: Any, data: Any, at: Any) -> Any:
    """Return the address of element *at* of *data*."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(_pointer(context, builder, signature.args[0], *arguments), ir.IntType(64))

    return types.uint64(data, types.intp), build


@intrinsic
def copy_bytes(typing_context: Any, target: Any, to: Any, source: Any, at: Any, count: Any) -> Any:
    """Copy *count* bytes of *source* from *at* to *target* from *to*; they do not overlap."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_pointer = _pointer(context, builder, signature.args[0], *arguments[:2])
        source_pointer = _pointer(context, builder, signature.args[2], *arguments[2:4])
        cgutils.raw_memcpy(builder, target_pointer, source_pointer, arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), build


@njit()
def is_equal(first: Bytes, at: int, other: Bytes, other_at: int, count: int) -> bool:
    """Return whether *count* bytes of two arrays are equal."""
    return _compare(address(first, at), address(other, other_at), np.uint64(count)) == 0  # type: ignore[no-any-return]
