"""Asks the processor for a line of its cache before it is needed; what is asked for changes nothing but time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import extending, types
from numba.core import cgutils as typed_cgutils

cgutils: Any = typed_cgutils
ir: Any = cgutils.ir
intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
READ, KEPT, DATA = 0, 3, 1
"""Arguments of `llvm.prefetch`: for reading, to be kept in all caches, of data."""


@intrinsic
def prefetch(_: Any, array: Any, places: Any) -> Any:
    """Ask for the line of *array* at *places*, a tuple of whole numbers that are not negative."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind, tuple_kind = signature.args
        held = context.make_array(kind)(context, builder, values[0])
        indices = [
            context.cast(builder, value, one, types.intp)
            for value, one in zip(cgutils.unpack_tuple(builder, values[1]), tuple_kind.types, strict=True)
        ]
        at = cgutils.get_item_pointer(context, builder, kind, held, indices, wraparound=False)
        number = ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, wanted, "llvm.prefetch.p0")
        builder.call(
            function,
            [builder.bitcast(at, cgutils.voidptr_t), *(ir.Constant(number, value) for value in (READ, KEPT, DATA))],
        )
        return context.get_dummy_value()

    return types.void(array, places), emit
