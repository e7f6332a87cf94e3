"""``spark.read.format("resp-stream")``: captures of client ports as rows."""

from __future__ import annotations

import gzip

import pytest

from cluster_core.errors import DecodeError
from slotscope.sources.resp.rows import RespStreamDataSource, RespStreamReader, without_secrets
from tests.builders.replication_records import RECORDINGS

CAPTURE = RECORDINGS / "redis-7.0" / "resp.pcap.gz"


def read(path, rows: str = "values", mode: str = "strict") -> list[dict]:
    """Rows without Spark, as the reader yields them."""
    reader = RespStreamDataSource({"path": str(path), "rows": rows, "mode": mode}).reader(
        RespStreamReader.schemas[rows]
    )
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_both_directions_of_a_replication_are_rows(spark) -> None:
    """Commands, answers, dumps, streams, and the packets that open and close connections."""
    spark.dataSource.register(RespStreamDataSource)

    found = spark.read.format("resp-stream").load(str(CAPTURE)).orderBy("value_id").collect()

    assert [row["value_id"] for row in found] == list(range(len(found)))
    assert {"array", "simple", "dump-begun", "dump-ended", "syn", "syn-ack", "fin"} <= {row["kind"] for row in found}
    asked = [row for row in found if row["words"] and bytes(row["words"][0]) == b"PSYNC"]
    answers = [row for row in found if row["words"] and bytes(row["words"][0]).startswith((b"FULLRESYNC", b"CONTINUE"))]
    assert len(asked) == len(answers) == 14
    assert {row["from_opener"] for row in asked} == {True}
    assert {row["from_opener"] for row in answers} == {False}


def test_a_dump_is_told_by_its_length_and_its_first_bytes() -> None:
    """It is skipped."""
    ended = [row for row in read(CAPTURE) if row["kind"] == "dump-ended"]

    assert {row["words"][0][:5] for row in ended} == {b"REDIS"}
    assert all(len(row["words"][0]) <= 256 < row["total_bytes"] for row in ended)


def test_a_damaged_file_fails_in_strict_mode_and_is_told_in_permissive_mode(tmp_path) -> None:
    """What stands before the damage is kept."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(gzip.decompress(CAPTURE.read_bytes())[:50_000])

    with pytest.raises(DecodeError, match="ends inside a packet"):
        read(cut)
    assert len(read(cut, mode="permissive")) > 10
    assert [row["reason"] for row in read(cut, "bad", "permissive")] == ["file ends inside a packet"]


def test_what_the_source_does_not_know_is_an_error(tmp_path) -> None:
    """Options, words of options, and files that are not there."""
    with pytest.raises(DecodeError, match="no option 'colour'"):
        RespStreamDataSource({"path": "x", "colour": "red"}).reader(RespStreamReader.schemas["values"])
    with pytest.raises(DecodeError, match="rows"):
        RespStreamDataSource({"path": "x", "rows": "all"}).schema()
    with pytest.raises(DecodeError):
        read(tmp_path / "missing.pcap")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("AUTH secret", "AUTH ***"),
        ("auth user secret", "auth *** ***"),
        ("HELLO 3 AUTH user secret", "HELLO 3 AUTH *** ***"),
        ("CONFIG SET requirepass secret", "CONFIG SET requirepass ***"),
        ("CONFIG SET maxmemory 1 masterauth secret", "CONFIG SET maxmemory *** *** ***"),
        ("ACL SETUSER u >secret", "ACL SETUSER u ***"),
        ("MIGRATE h 1 k 0 9 AUTH2 u secret", "MIGRATE h 1 k 0 9 AUTH2 *** ***"),
        ("SET auth x", "SET auth x"),
        ("", ""),
    ],
)
def test_passwords_are_no_part_of_the_rows(command: str, shown: str) -> None:
    """Tables are read by more people than servers are."""
    assert without_secrets(command.encode().split()) == shown.encode().split()
