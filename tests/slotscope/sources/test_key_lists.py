"""Key lists of every format, cut anywhere, with bad records."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import unquote
from slotscope.sources.files import expand
from slotscope.sources.keys.lists import KeyListOptions, KeyListReader, KeyListUnit, plan_units

LINES = [b"plain", b"user:1", b'"quoted \\x00\\xff\\n\\" end"', b"caf\xc3\xa9", b"", b'half "quoted', b"last"]
KEYS = [b"plain", b"user:1", b'quoted \x00\xff\n" end', b"caf\xc3\xa9", b'half "quoted', b"last"]


def read(unit, options=None, **more):
    reader = KeyListReader(unit, options or KeyListOptions(), **more)
    rows = list(reader)
    keys = [key for part in rows for key in part.keys.to_pylist()]
    sizes = [size for part in rows if part.sizes is not None for size in part.sizes.tolist()]
    ops = [count for part in rows if part.ops is not None for count in part.ops.tolist()]
    return keys, sizes, ops, reader.bad


def test_lines_are_keys_and_quoted_lines_are_unquoted(tmp_path):
    path = tmp_path / "keys.txt"
    path.write_bytes(b"\r\n".join(LINES))

    keys, *_ = read(KeyListUnit(str(path), "text", 0))

    assert keys == KEYS


@given(st.binary(max_size=20))
def test_quoted_text_of_redis_cli_is_unquoted_to_the_same_bytes(key):
    escapes = {10: b"\\n", 13: b"\\r", 9: b"\\t", 7: b"\\a", 8: b"\\b", 34: b'\\"', 92: b"\\\\"}
    quoted = b"".join(escapes.get(byte) or (bytes([byte]) if 32 <= byte < 127 else b"\\x%02x" % byte) for byte in key)

    assert unquote(b'"' + quoted + b'"') == key


def test_bad_lines_are_quarantined_in_permissive_mode(tmp_path):
    path = tmp_path / "keys.txt"
    path.write_bytes(b'"a"\nbare\n"b"\n')

    keys, _, _, bad = read(KeyListUnit(str(path), "text", 0), KeyListOptions(quoted=True), permissive=True)

    assert keys == [b"a", b"b"]
    assert [(error.offset, error.source) for error in bad] == [(4, str(path))]


def test_csv_has_keys_sizes_and_operations_under_their_usual_names(tmp_path):
    path = tmp_path / "keys.csv"
    path.write_bytes(b'ops,key,size\n3,a,10\n4,"with,comma",20\n5,caf\xc3\xa9,\n')

    keys, sizes, ops, _ = read(KeyListUnit(str(path), "csv", 0))

    assert (keys, sizes, ops) == ([b"a", b"with,comma", b"caf\xc3\xa9"], [10, 20, -1], [3, 4, 5])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_keys_of_every_text_type_are_read_in_row_groups(tmp_path, kind):
    path = tmp_path / "keys.parquet"
    names = [f"key:{number}" for number in range(1000)]
    column = pa.array(names) if pa.types.is_dictionary(kind) else pa.array(names, pa.string())
    pq.write_table(pa.table({"key": column.cast(kind)}), path, row_group_size=100)

    units = plan_units(expand([str(path)]), None, 4)
    keys = [key for unit in units for key in read(unit)[0]]

    assert len(units) == 4
    assert keys == [name.encode() for name in names]


def test_rows_without_a_key_and_negative_sizes_are_bad(tmp_path):
    path = tmp_path / "keys.parquet"
    counts = pa.array([None, 2, 2**63], pa.uint64())
    pq.write_table(pa.table({"key": ["a", None, "c"], "size": [1, 2, -3], "ops": counts}), path)
    unit = KeyListUnit(str(path), "parquet", 0)

    with pytest.raises(DecodeError, match="offset"):
        read(unit)
    keys, sizes, ops, bad = read(unit, permissive=True)

    assert (keys, sizes, ops) == ([b"a", b"c"], [1, -1], [-1, -1])
    assert sorted(error.offset for error in bad) == [1, 2, 2]


def test_a_table_without_a_key_column_explains_the_option(tmp_path):
    path = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), path)

    with pytest.raises(DecodeError, match="--key-column"):
        read(KeyListUnit(str(path), "parquet", 0))
    keys, *_ = read(KeyListUnit(str(path), "parquet", 0), KeyListOptions(key_column="b"))

    assert keys == [b"y"]
