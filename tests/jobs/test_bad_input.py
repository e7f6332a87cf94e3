"""Every kind of bad input, as a user meets it: one line and exit code 2, or a row, a warning and exit code 3."""

from __future__ import annotations

import gzip

import pytest

from schemas.bronze import BAD_RECORDS
from schemas.runs import RUNS
from schemas.silver import SLOT_LOAD
from slotscope.runtime.failure import BAD_INPUT, PARTIAL
from slotscope.runtime.storage.delta_files import exists, read_rows
from tests.benches.program import slotscope, without_progress
from tests.builders import rdb_builder as build
from tests.conftest import DATA

GOOD = (DATA / "valkey-9.1" / "before" / "node-7002.rdb").read_bytes()
SELECT = build.select(0)
FLIPPED = bytearray(GOOD)
FLIPPED[len(GOOD) // 2] ^= 0x40

BAD_DUMPS: dict[str, tuple[bytes, str]] = {
    "empty.rdb": (b"", "empty"),
    "text.rdb": (b"hello, this is no dump\n" * 20, "not an RDB"),
    "cut.rdb": (GOOD[:150_000], "ends"),
    "flipped.rdb": (bytes(FLIPPED), ""),
    "exabytes.rdb": (build.rdb(SELECT, build.key("k", 0, b"\x81" + (1 << 62).to_bytes(8, "big"))), "claims"),
    "lzf.rdb": (build.rdb(SELECT, build.key("k", 13, build.compressed(b"a" * 400, claim=90_000))), "claims"),
    "future.rdb": (build.rdb(SELECT, build.key("k", 0, build.string("v")), magic="REDIS0099"), "version"),
    "unknown-type.rdb": (build.rdb(SELECT, build.key("k", 201, b"")), "201"),
    "log.rdb": (b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n" * 9, "AOF"),
    "packed.rdb": (gzip.compress(b"not a dump either" * 50), "not an RDB"),
    "packed-cut.rdb": (gzip.compress(GOOD)[:60_000], ""),
}
"""File to its bytes and a word that the reason must hold."""
QUICK_DUMPS = ("text.rdb", "cut.rdb", "packed-cut.rdb")
"""One at the door, one among the records, one while unpacking; the reasons of all are in the test of permissive mode."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    for name, (data, _) in BAD_DUMPS.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "name", [name if name in QUICK_DUMPS else pytest.param(name, marks=pytest.mark.slow) for name in BAD_DUMPS]
)
def test_strict_mode_stops_with_one_line_that_names_file_offset_and_reason(spark, folder, tmp_path, capsys, name):
    code = slotscope("key-slots", "--root", tmp_path / "root", "--rdb", folder / name)

    lines = without_progress(capsys.readouterr().err)
    assert (code, len(lines)) == (BAD_INPUT, 1), lines
    assert lines[0].startswith(f"slotscope: {folder / name}: offset ")
    assert BAD_DUMPS[name][1] in lines[0]
    assert [run["state"] for run in read_rows(str(tmp_path / "root"), RUNS)] == ["failed"]
    assert not exists(str(tmp_path / "root"), SLOT_LOAD)


def test_permissive_mode_quarantines_each_warns_everywhere_and_counts_the_rest(spark, folder, tmp_path, capsys):
    (tmp_path / "good.rdb").write_bytes(GOOD)
    root, page = tmp_path / "root", tmp_path / "page.html"

    dumps = (folder / "*.rdb", tmp_path / "good.rdb")
    code = slotscope("key-slots", "--root", root, "--mode", "permissive", "--rdb", *dumps, "--html", page)

    shown = capsys.readouterr().out
    bad = {row["source"]: row for row in read_rows(str(root), BAD_RECORDS)}
    assert code == PARTIAL
    assert sorted(bad) == sorted(str(folder / name) for name in BAD_DUMPS)
    assert all(word in bad[str(folder / name)]["reason"] for name, (_, word) in BAD_DUMPS.items())
    assert all(0 <= bad[str(folder / name)]["offset"] <= len(data) * 40 for name, (data, _) in BAD_DUMPS.items())
    assert f"{len(BAD_DUMPS)} records could not be read" in shown
    assert f"{len(BAD_DUMPS)} records could not be read" in page.read_text("utf-8")


def test_a_topology_with_overlapping_slots_is_refused_with_its_file(tmp_path, capsys):
    nodes = (DATA / "valkey-9.1" / "topology" / "nodes.txt").read_text().splitlines()
    masters = [at for at, line in enumerate(nodes) if "master" in line]
    nodes[masters[0]] += " " + nodes[masters[1]].split()[-1]
    (tmp_path / "nodes.txt").write_text("\n".join(nodes) + "\n")
    (tmp_path / "good.rdb").write_bytes(GOOD)

    code = slotscope(
        "key-slots", "--root", tmp_path / "root", "--rdb", tmp_path / "good.rdb", "--topology", tmp_path / "nodes.txt"
    )

    line = capsys.readouterr().err
    assert code == BAD_INPUT
    assert len(without_progress(line)) == 1
    assert str(tmp_path / "nodes.txt") in line
    assert "slot" in line
