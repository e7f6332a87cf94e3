"""Key lists as units of work: text, CSV, JSON lines and Parquet, with optional size and operations columns."""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, json, parquet

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import LINE_BYTES_MAX
from cluster_core.kernels.key_batch import NONE
from cluster_core.kernels.keys.list_lines import keys_of_lines
from slotscope.sources.byte_streams import ByteStream, as_arrow
from slotscope.sources.files import InputFile, compression_of, open_raw, open_stream, units_of_tasks

KINDS = ("text", "csv", "jsonl", "parquet")
SIZE_COLUMNS = ("serialized_bytes", "size", "bytes", "size_in_bytes", "memory_bytes", "memory")
OPS_COLUMNS = ("ops", "operations", "hits")
_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
_BLOCK_BYTES = 8 << 20
_ROWS_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class KeyListOptions:
    """Names of columns (None: the first known name), and quoting of text lines (None: detected by line)."""

    key_column: str | None = None
    size_column: str | None = None
    ops_column: str | None = None
    quoted: bool | None = None


@dataclass(frozen=True, slots=True)
class KeyListUnit:
    """A whole list, or row groups of a Parquet file."""

    path: str
    kind: str
    size: int
    start: int = 0
    end: int | None = None


class KeyRows(NamedTuple):
    """Keys (Arrow ``binary``, no nulls) with sizes and operations (int64, `NONE` where unknown), or None for no column."""

    keys: pa.Array
    sizes: NDArray[np.int64] | None
    ops: NDArray[np.int64] | None


def kind_of(path: str) -> str:
    """Return the format that a file name announces; text if it announces none."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    return next((kind for ending, kind in _ENDINGS.items() if name.endswith(ending)), "text")


@dataclass(frozen=True, slots=True)
class KeyListTask:
    """Units that one task reads one after the other, in the order of their paths."""

    units: tuple[KeyListUnit, ...]


def plan_tasks(files: list[InputFile], kind: str | None, parallelism: int) -> list[KeyListTask]:
    """Cut *files* into units, and let them share tasks where they are many."""
    return [KeyListTask(units) for units in units_of_tasks(plan_units(files, kind, parallelism), parallelism)]


def plan_units(files: list[InputFile], kind: str | None, parallelism: int) -> list[KeyListUnit]:
    """Cut *files* into about *parallelism* units or more; only a Parquet file is cut, at its row groups."""
    per_file = max(1, -(-parallelism // max(1, len(files))))
    units: list[KeyListUnit] = []
    for file in files:
        units += _cut(file, kind or kind_of(file.path), per_file)
    return units


def _cut(file: InputFile, kind: str, parts: int) -> list[KeyListUnit]:
    whole = KeyListUnit(file.path, kind, file.size)
    if parts == 1 or kind != "parquet":
        return [whole]
    groups = _open_parquet(file.path).num_row_groups
    bounds = np.linspace(0, groups, min(parts, max(groups, 1)) + 1).astype(int).tolist()
    return [KeyListUnit(file.path, kind, file.size, start, end) for start, end in itertools.pairwise(bounds)]


class KeyListReader:
    """Iterate over the `KeyRows` of a unit.

    Raises DecodeError with path, place (byte, or row in CSV, JSON and Parquet) and reason at a record that is no key; with
    *permissive* the error is appended to *bad* and reading continues.  *kept* counts bad rows with a readable key, *rows_total* is
    the row count in the file's metadata, if any.  The caller sets *broke_off* where an error ended the reading.
    """

    def __init__(self, unit: KeyListUnit, options: KeyListOptions, *, permissive: bool = False) -> None:
        self.unit = unit
        self.options = options
        self.bad: list[DecodeError] = []
        self.broke_off = False
        self.rows_total: int | None = None
        self.kept = 0
        self._permissive = permissive

    def __iter__(self) -> Iterator[KeyRows]:
        read = {
            "text": self._read_text,
            "csv": self._read_csv,
            "jsonl": self._read_jsonl,
            "parquet": self._read_parquet,
        }
        return read[self.unit.kind]()

    def _fail(self, reason: str, offset: int) -> None:
        error = DecodeError(reason, offset=offset, source=self.unit.path)
        if not self._permissive:
            raise error
        self.bad.append(error)

    # text

    def _read_text(self) -> Iterator[KeyRows]:
        bad = self.bad if self._permissive else None
        for offset, block in self._blocks():
            yield KeyRows(keys_of_lines(block, self.options.quoted, self.unit.path, offset, bad), None, None)

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines with their offset."""
        stream = open_stream(self.unit.path)
        try:
            offset, left = 0, b""
            while more := _read(stream, _BLOCK_BYTES):
                block = left + more
                whole = block.rfind(b"\n") + 1
                if whole:
                    yield offset, block[:whole]
                offset, left = offset + whole, self._bounded(block[whole:], offset + whole)
            if left:
                yield offset, left
        finally:
            stream.close()

    def _bounded(self, line: bytes, offset: int) -> bytes:
        if len(line) > LINE_BYTES_MAX:
            raise DecodeError(
                f"a line is longer than {LINE_BYTES_MAX} bytes: not a list of keys",
                offset=offset,
                source=self.unit.path,
            )
        return line

    # tables

    def _read_csv(self) -> Iterator[KeyRows]:
        def refuse(row: Any) -> str:
            place = row.number if row.number is not None else 0
            reason = f"{row.actual_columns} columns instead of {row.expected_columns}"
            self.bad.append(DecodeError(reason, offset=place, source=self.unit.path))
            return "skip"

        parse = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse if self._permissive else None)
        with self._opened() as opened:
            try:
                names = csv.open_csv(opened, parse_options=parse).schema.names
            except pa.ArrowInvalid as error:
                raise DecodeError(_reason(error), offset=0, source=self.unit.path) from error
        key, *_ = self._columns(names)
        convert = csv.ConvertOptions(column_types={key: pa.binary()}, check_utf8=False)
        read = csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
        self.bad.clear()
        with self._opened() as opened:
            yield from self._rows_of(
                csv.open_csv(opened, parse_options=parse, convert_options=convert, read_options=read)
            )

    def _read_jsonl(self) -> Iterator[KeyRows]:
        with self._opened() as opened:
            try:
                batches = json.open_json(
                    opened, read_options=json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
                )
                yield from self._rows_of(batches)
            except pa.ArrowInvalid as error:
                raise DecodeError(_reason(error), offset=0, source=self.unit.path) from error

    def _read_parquet(self) -> Iterator[KeyRows]:
        file = _open_parquet(self.unit.path)
        wanted = [name for name in self._columns(file.schema_arrow.names) if name]
        groups = range(self.unit.start, file.num_row_groups if self.unit.end is None else self.unit.end)
        self.rows_total = sum(file.metadata.row_group(group).num_rows for group in groups)
        yield from self._rows_of(
            file.iter_batches(batch_size=_ROWS_MAX, row_groups=list(groups), columns=wanted, use_threads=False)
        )

    def _opened(self) -> pa.NativeFile:
        """Open the file for pyarrow's readers, decompressed."""
        opened = as_arrow(open_raw(self.unit.path))
        compression = compression_of(self.unit.path)
        return pa.CompressedInputStream(opened, compression) if compression else opened

    def _columns(self, names: list[str]) -> tuple[str, str | None, str | None]:
        chosen = self.options
        for wanted in (chosen.key_column, chosen.size_column, chosen.ops_column):
            if wanted is not None and wanted not in names:
                raise DecodeError(f"no column {wanted!r}, only {', '.join(names)}", offset=0, source=self.unit.path)
        key = chosen.key_column or next((name for name in ("key", "key_base64", "name") if name in names), None)
        if key is None:
            if len(names) != 1:
                raise DecodeError(
                    f"no column 'key' among {', '.join(names)}: name it with --key-column",
                    offset=0,
                    source=self.unit.path,
                )
            key = names[0]
        size = chosen.size_column or next((name for name in SIZE_COLUMNS if name in names), None)
        ops = chosen.ops_column or next((name for name in OPS_COLUMNS if name in names), None)
        return key, size, ops

    def _rows_of(self, batches: Any) -> Iterator[KeyRows]:
        """Yield the rows of Arrow record batches; the options name their columns."""
        row = 0
        try:
            for batch in batches:
                key, size, ops = self._columns(batch.schema.names)
                keys = _binary(batch.column(key), base64_text=key == "key_base64", source=self.unit.path, row=row)
                sizes, counts = self._numbers(batch, size, row), self._numbers(batch, ops, row)
                if keys.null_count:
                    valid = keys.is_valid().to_numpy(zero_copy_only=False)
                    for index in np.flatnonzero(~valid).tolist():
                        self._fail("the row has no key", row + index)
                    keys = keys.filter(pa.array(valid))
                    sizes = None if sizes is None else sizes[valid]
                    counts = None if counts is None else counts[valid]
                row += batch.num_rows
                yield KeyRows(keys, sizes, counts)
        except (pa.ArrowInvalid, OSError) as error:
            raise DecodeError(_reason(error), offset=row, source=self.unit.path) from error

    def _numbers(self, batch: pa.RecordBatch, name: str | None, row: int) -> NDArray[np.int64] | None:
        """Return a numeric column as int64: missing values are `NONE`, negative and non-numeric ones are bad."""
        if name is None:
            return None
        column = batch.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
            raise DecodeError(f"column {name!r} holds {column.type}, not numbers", offset=row, source=self.unit.path)
        present = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = column.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
        wrong = present & ~((numbers >= 0) & (numbers < 2**62))
        for index in np.flatnonzero(wrong).tolist():
            self._fail(f"column {name!r} holds {numbers[index]}", row + index)
            self.kept += 1
        if pa.types.is_integer(column.type):
            values: NDArray[np.int64] = (
                column.cast(pa.int64(), safe=False).fill_null(NONE).to_numpy(zero_copy_only=False).copy()
            )
        else:
            values = np.where(present & ~wrong, numbers, NONE).astype(np.int64)
        values[wrong] = NONE
        return values


def _read(stream: ByteStream, count: int) -> bytes:
    room = bytearray(count)
    return bytes(room[: stream.readinto(memoryview(room))])


def _open_parquet(path: str) -> parquet.ParquetFile:
    opened = as_arrow(open_raw(path))
    try:
        return parquet.ParquetFile(opened)
    except (pa.ArrowInvalid, OSError) as error:
        raise DecodeError(_reason(error), offset=0, source=path) from error


def _binary(column: pa.Array, *, base64_text: bool, source: str, row: int) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if base64_text:
        try:
            return pa.array(
                [None if text is None else base64.b64decode(text, validate=True) for text in column.to_pylist()],
                pa.binary(),
            )
        except (binascii.Error, ValueError, TypeError) as error:
            raise DecodeError(f"not base64 ({error})", offset=row, source=source) from error
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if not any(
        check(column.type)
        for check in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary,
                      pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    ):  # fmt: skip
        raise DecodeError(f"the key column holds {column.type}, not text or bytes", offset=row, source=source)
    return pc.cast(column, pa.binary())


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
