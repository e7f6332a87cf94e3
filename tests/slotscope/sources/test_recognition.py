"""Files are recognised by their first bytes, not by name; unknown files are reported in a line."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from slotscope.sources.fitting_jobs import fitting_jobs
from slotscope.sources.recognition import FileKind, RecognisedFile, find_files, recognise

LOG_LINE = b"7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: fail"
ROOT = Path(__file__).parents[3]
RECORDED = [
    path
    for folder in ("tests/data", "slotscope/demo_data")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file()
]
EXPECTED = {
    "*.rdb": FileKind.RDB,
    "bus.pcap.gz": FileKind.BUS_CAPTURE,
    "sentinel/*/logs/*.log.gz": FileKind.SENTINEL_LOG,
    "bus-*/logs/*.log.gz": FileKind.SERVER_LOG,
    "polled-restart/logs/*.log.gz": FileKind.SERVER_LOG,
    "scraped-failover/logs/*.log.gz": FileKind.SERVER_LOG,
    "metrics.jsonl.gz": FileKind.METRICS,
    "prometheus/*": FileKind.METRICS,
    "polls.jsonl.gz": FileKind.NODE_POLLS,
    "truth.jsonl.gz": FileKind.SENTINEL_POLLS,
    "info.jsonl.gz": FileKind.INFO,
    "topology/*": FileKind.TOPOLOGY,
    "keys*.parquet": FileKind.KEYS_PARQUET,
    "keys*.csv": FileKind.KEYS_CSV,
    "keys*.jsonl": FileKind.KEYS_JSONL,
    "keys-*.jsonl.gz": FileKind.KEYS_JSONL,
    "scan*.txt": FileKind.KEYS_TEXT,
    "*.xz": FileKind.UNKNOWN,
    "events.jsonl.gz": FileKind.UNKNOWN,
    "bus-versions/*": FileKind.UNKNOWN,
    "recording.json": FileKind.UNKNOWN,
    "*.md": FileKind.UNKNOWN,
    "axe/*": FileKind.UNKNOWN,
    "*.py": FileKind.UNKNOWN,
}
"""What each recorded file is, by the first pattern that fits its path."""


def expected_of(path: Path) -> FileKind | None:
    return next((kind for pattern, kind in EXPECTED.items() if path.match(pattern)), None)


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in RECORDED if "__pycache__" not in path.parts]
)
def test_every_recorded_file_is_recognised(path, tmp_path):
    nameless = tmp_path / "x"
    shutil.copy(path, nameless)

    assert recognise(str(path)).kind is expected_of(path)
    assert recognise(str(nameless)).kind is expected_of(path)


@pytest.mark.parametrize(
    ("data", "kind", "about"),
    [
        (b"", FileKind.UNKNOWN, "empty"),
        (b"\x1f\x8b\x08broken", FileKind.UNKNOWN, "damaged"),
        (b"\0\x1b[31m\xff", FileKind.UNKNOWN, "binary data that begins \\x00\\x1b[31m\\xff"),
        pytest.param(b"{" * 100_000, FileKind.UNKNOWN, "JSON that begins", id="deep JSON"),
        (b'{"log":"%s\\n","stream":"stdout"}\n' % LOG_LINE, FileKind.SERVER_LOG, ""),
        (b"[pod/r-0/redis] %s\n" % LOG_LINE, FileKind.SERVER_LOG, ""),
        (b'{"GET": 200}\n' * 5 + b'{"labels":{"pod":"r-0"},"line":"%s"}\n' % LOG_LINE, FileKind.SERVER_LOG, ""),
        (b'{\n "events": [\n  {\n   "message": "%s"\n  }\n ]\n}\n' % LOG_LINE, FileKind.SERVER_LOG, ""),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n", FileKind.AOF, ""),
        (b"#TS:1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n", FileKind.AOF, ""),
        (b"file a.1.base.rdb seq 1 type b\n", FileKind.AOF_MANIFEST, ""),
        (b'1795254729.693956 [0 127.0.0.1:51200] "SET" "user:1" "1"\n', FileKind.MONITOR, ""),
        (b"# Server\r\nredis_version:7.0.15\r\n", FileKind.INFO, ""),
        (b"user:1\nuser:2\n", FileKind.KEYS_TEXT, ""),
        (b"19294\n", FileKind.UNKNOWN, "text that begins 19294"),
        (b"A text with words.\nAnd a second line.\n", FileKind.UNKNOWN, "text that begins A text with"),
        (b"\xd4\xc3\xb2\xa1" + b"\0" * 40, FileKind.OTHER_CAPTURE, ""),
        (gzip.compress(b"REDIS0011\xff" + b"\0" * 8, mtime=0), FileKind.RDB, "gzip"),
    ],
)
def test_a_file_is_recognised_by_its_first_bytes(data, kind, about, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)

    actual = recognise(str(path))

    assert actual.kind is kind
    assert about in actual.about
    assert actual.about.isprintable()


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cut_and_changed_files_end_in_a_line(data, tmp_path):
    whole = data.draw(st.sampled_from([path for path in RECORDED if path.stat().st_size < 300_000])).read_bytes()
    raw = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, max(len(raw) - 1, 0)), st.integers(0, 255)), max_size=5)
    ):
        raw[at : at + 1] = bytes([byte])
    path = tmp_path / "file"
    path.write_bytes(raw)

    actual = recognise(str(path))

    assert actual.kind in FileKind
    assert actual.about.isprintable()


def test_folders_are_searched_and_hidden_files_are_not(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "keys.txt").write_text("a\nb\n")
    (tmp_path / "in" / ".hidden").write_text("a\n")

    assert [file.path for file in find_files([str(tmp_path)])] == [str(tmp_path / "in" / "deep" / "keys.txt")]
    with pytest.raises(DecodeError, match="no such file"):
        find_files([str(tmp_path / "gone")])


def known(**files: FileKind) -> list[RecognisedFile]:
    return [RecognisedFile(path, kind) for path, kind in files.items()]


def arguments_of(recognised: list[RecognisedFile]) -> dict[str, list[str]]:
    jobs, _ = fitting_jobs(recognised, "R", "s")
    return {job.job: list(job.arguments) for job in jobs}


def test_files_of_one_kind_are_read_by_one_command():
    """Captures, logs and polls of one cluster belong together."""
    actual = known(
        p=FileKind.BUS_CAPTURE,
        l1=FileKind.SERVER_LOG,
        l2=FileKind.SERVER_LOG,
        n=FileKind.NODE_POLLS,
        s=FileKind.SENTINEL_LOG,
    )

    arguments = arguments_of(actual)

    assert set(arguments) == {"history", "lab sentinel-replay"}
    assert {"p", "l1", "l2", "n"} < set(arguments["history"])
    assert "s" in arguments["lab sentinel-replay"]


def test_dumps_and_lists_of_the_same_keys_are_not_added_up():
    jobs, _ = fitting_jobs(known(d=FileKind.RDB, k=FileKind.KEYS_CSV), "R", "s")

    assert [job.arguments[job.arguments.index("--snapshot") + 1] for job in jobs] == ["s-dumps", "s-keys-csv"]


def test_the_files_of_a_log_are_read_by_its_manifest(tmp_path):
    """Base and increments are not dumps and logs of their own."""
    manifest = tmp_path / "a.manifest"
    manifest.write_bytes(b"file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type i\n")
    base, increment = (str(tmp_path / name) for name in ("a.1.base.rdb", "a.1.incr.aof"))
    actual = [
        RecognisedFile(str(manifest), FileKind.AOF_MANIFEST),
        RecognisedFile(base, FileKind.RDB),
        RecognisedFile(increment, FileKind.AOF),
    ]

    assert arguments_of(actual) == {"key-slots": ["--aof", str(manifest), "--snapshot", "s", "--root", "R"]}


def test_the_newest_topology_is_used_and_unusable_files_are_listed(tmp_path):
    for name, written in (("old", 1), ("new", 2)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (written, written))
    actual = [RecognisedFile(str(tmp_path / name), FileKind.TOPOLOGY) for name in ("new", "old")]

    jobs, left = fitting_jobs([*actual, *known(d=FileKind.RDB, m=FileKind.INFO)], "R", "s")
    alone = fitting_jobs(actual, "R", "s")

    assert str(tmp_path / "new") in jobs[0].arguments
    assert str(tmp_path / "old") not in jobs[0].arguments
    assert any("the newest of 2 topologies" in text for text in left)
    assert any("no command reads them" in text for text in left)
    assert alone[0] == []
    assert len(alone[1]) == 2
