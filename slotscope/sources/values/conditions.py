"""What a reader of ``redis-rdb`` is asked: which keys, by options and by the conditions that Spark hands over, and which columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import NONE, KeyBatch, key_array, type_names
from cluster_core.kernels.keys.filter import CONDITIONS, KeyFilter, key_filter
from cluster_core.rdb.value_columns import VALUE_FIELDS, value_type

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_NUMBERS = ("db", "slot", "elements", "serialized_bytes", "expire_at_ms", "idle_s", "freq", "offset")
EQUAL_TO, IN, IS_NOT_NULL = "EqualTo", "In", "IsNotNull"
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    EQUAL_TO: np.equal,
    "GreaterThan": np.greater,
    "GreaterThanOrEqual": np.greater_equal,
    "LessThan": np.less,
    "LessThanOrEqual": np.less_equal,
}
"""By the names of Spark's classes of conditions, which PySpark has since 4.1."""


class PushedCondition(NamedTuple):
    """A condition of a query on one *column*: *how* it compares with *value*, several for ``In``, none for ``IsNotNull``."""

    column: str
    how: str
    value: Any

    def mark(self, batch: KeyBatch) -> NDArray[np.bool_]:
        """Say of each key of *batch* whether it is so; what is absent is not."""
        if self.column in _NUMBERS:
            numbers = getattr(batch, self.column).astype(np.int64)
            if self.how == IS_NOT_NULL:
                return np.asarray(numbers != NONE)
            if self.how == IN:
                return np.asarray(np.isin(numbers, self.value) & (numbers != NONE))
            return np.asarray(_OPERATORS[self.how](numbers, self.value) & (numbers != NONE))
        words = key_array(batch) if self.column == "key" else type_names(batch.type)
        if self.how == IS_NOT_NULL:
            return np.asarray(words.is_valid().to_numpy(zero_copy_only=False))
        wanted = pa.array(self.value if self.how == IN else [self.value], words.type)
        return np.asarray(pc.is_in(words, value_set=wanted).to_numpy(zero_copy_only=False))


def pushed_condition(condition: Filter) -> PushedCondition | None:
    """Return *condition* as the skim can tell it, None if it cannot."""
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    kind = type(condition).__name__
    if len(path) != 1 or kind not in (*_OPERATORS, IN, IS_NOT_NULL):
        return None
    value: Any = getattr(condition, "value", None)
    values: tuple[Any, ...] = value if kind == IN else () if kind == IS_NOT_NULL else (value,)
    if path[0] in _NUMBERS:
        return PushedCondition(path[0], kind, value) if all(type(one) is int for one in values) else None
    if path[0] not in ("key", "type") or kind not in (EQUAL_TO, IN, IS_NOT_NULL):
        return None
    wanted = (bytes, bytearray) if path[0] == "key" else (str,)
    return PushedCondition(path[0], kind, value) if all(isinstance(one, wanted) for one in values) else None


def filter_of(options: Mapping[str, str]) -> KeyFilter | None:
    """Return the filter that *options* ask for, None for none; raises ConditionError for one that cannot be read."""
    asked: dict[str, Any] = {name: options[name] for name in CONDITIONS if name in options}
    asked |= {name: [asked[name]] for name in ("match", "prefix", "type", "db") if name in asked}
    return key_filter(**asked) if asked else None


def asked_columns(schema: pa.Schema, options: Mapping[str, str]) -> pa.Schema:
    """Return *schema* with the value, or the columns of both that option ``columns`` names; raises DecodeError for one that is not known."""
    has_values = options.get("values", "false").lower()
    if has_values not in ("true", "false"):
        raise DecodeError(
            f"option values is {has_values!r}, not true or false", offset=0, source=options.get("path", "")
        )
    names = [one.strip() for one in options.get("columns", "").split(",") if one.strip()]
    if not names:
        names = [*schema.names, *(["value"] if has_values == "true" else [])]
    known = {*schema.names, "value", *(f"value.{field}" for field in VALUE_FIELDS)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DecodeError(f"there is no column {unknown[0]!r}", offset=0, source=options.get("path", ""))
    fields = [name.partition(".")[2] for name in names if name.startswith("value.")]
    kept = [schema.field(name) for name in schema.names if name in names]
    if fields or "value" in names:
        kept.append(pa.field("value", value_type(VALUE_FIELDS if "value" in names else fields)))
    return pa.schema(kept)
