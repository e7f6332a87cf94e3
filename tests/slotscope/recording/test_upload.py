"""Recorded files on their way to an object store: a real S3 server, that is away for a while, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("moto", reason="moto is not installed")
pytest.importorskip("flask_cors", reason="flask-cors is not installed")

from cluster_core.formats.landing import Kind, Reason, RecordedFile, latest, read_gap, read_name
from jobs.main import run
from slotscope.recording.point import Bounds, Point
from slotscope.recording.series import Rotation
from slotscope.recording.upload import Uploader
from tests.benches.object_store import ObjectStore, object_store
from tests.benches.program import without_progress
from tests.benches.servers import free_port, wait_for

pytestmark = pytest.mark.processes

S = 10**9
MINUTES = 150
TARGET = "s3://landing/recordings/cache/one"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store("landing") as store:
        yield store


@pytest.fixture
def store(server, monkeypatch):
    """As the environment names it, empty."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    for name in server.names("landing"):
        server.client().delete_object(Bucket="landing", Key=name)
    return server


class Spool:
    """A point with finished files for a store, and its progress lines."""

    def __init__(self, folder: Path, bytes_max: int = 1 << 20) -> None:
        self.lines: list[str] = []
        self.point = Point(
            folder / "cache" / "one", Rotation(60 * S, 1 << 20), Bounds(bytes_max), self.lines.append, is_spool=True
        )
        self.point.open(0)

    def add(self, number: int, size: int = 400) -> str:
        path = self.point.folder / Kind.BUS / RecordedFile("", number * S, (number + 1) * S, "pcap").name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes([number % 256]) * size)
        return path.name


def test_finished_files_are_uploaded_whole_and_leave_the_spool(store, tmp_path):
    """One that is being written stays; what could not be recorded is brought, too."""
    spool = Spool(tmp_path)
    names = [spool.add(number) for number in range(3)]
    partial = spool.point.folder / Kind.BUS / RecordedFile("", 9 * S, None, "pcap").name
    partial.write_bytes(b"half")
    (spool.point.folder / "gaps.jsonl").write_text("a gap\n")
    uploader = Uploader(spool.point, TARGET)
    uploader.start()
    wait_for(lambda: len(store.names("landing")) == 4, "three files and the gaps to be brought")
    uploader.close()
    spool.point.close(0)

    assert store.names("landing") == sorted(
        [f"recordings/cache/one/bus/{name}" for name in names] + ["recordings/cache/one/gaps.jsonl"]
    )
    assert store.read("landing", f"recordings/cache/one/bus/{names[2]}") == bytes([2]) * 400
    assert [path.name for path in (spool.point.folder / Kind.BUS).iterdir()] == [partial.name]
    assert spool.lines == []


def test_an_unavailable_store_loses_nothing_within_the_bound(store, tmp_path, monkeypatch):
    """Waiting files are reported once, and the return of the store once; all files are there then, and another recorder's."""
    away = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", away)
    spool = Spool(tmp_path)
    names = [spool.add(number) for number in range(2)]
    uploader = Uploader(spool.point, TARGET)
    uploader.start()
    wait_for(lambda: bool(spool.lines), "the store to be missed", 60)
    names.append(spool.add(2))
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    wait_for(lambda: len(store.names("landing")) == 3, "the files to be brought", 60)
    uploader.close()
    spool.point.close(0)

    assert [name.rpartition("/")[2] for name in store.names("landing")] == sorted(names)
    assert len(spool.lines) == 2
    assert f"2 files wait in {spool.point.folder}" in spool.lines[0]
    assert "takes files again" in spool.lines[1]


def test_a_full_spool_is_a_gap(tmp_path):
    """The oldest go; each is named, with its times."""
    spool = Spool(tmp_path, bytes_max=1000)
    names = [spool.add(number) for number in range(4)]

    left = spool.point.keep_within_bounds(9 * S)
    spool.point.close(9 * S)
    lines = (spool.point.folder / "gaps.jsonl").read_bytes().splitlines()
    gaps = latest(read_gap(raw, line=number) for number, raw in enumerate(lines, 1))

    assert left == 800
    assert [(gap.reason, gap.subject, gap.from_ns, gap.to_ns) for gap in gaps] == [
        (Reason.NOT_UPLOADED, names[number], number * S, (number + 1) * S) for number in range(2)
    ]
    assert len(spool.lines) == 2


def test_a_recorder_lands_in_a_store(store, tmp_path):
    """By the command: its finished files and its gaps, by way of a spool that is empty afterwards."""
    flags = ["--cluster", "cache", "--point", "one", "--spool", str(tmp_path), "--kinds", "polls", "--duration", "1.5"]

    code = run(["record", "s3a://landing/recordings", *flags, "--node", f"127.0.0.1:{free_port()}"])
    raw = store.read("landing", "recordings/cache/one/gaps.jsonl").splitlines()
    gaps = latest(read_gap(line, line=number) for number, line in enumerate(raw, 1))

    assert code == 0
    assert [(gap.reason, gap.to_ns is not None) for gap in gaps] == [(Reason.UNREACHABLE, True)]
    assert [path for path in (tmp_path / "cache" / "one").rglob("*") if read_name(path.name)] == []


def test_a_store_that_takes_nothing_is_one_line_before_anything_is_recorded(store, tmp_path, capsys):
    flags = ["record", "s3://nowhere/x", "--cluster", "cache", "--spool", str(tmp_path), "--kinds", "polls"]
    code = run([*flags, "--duration", "1"])
    errors = without_progress(capsys.readouterr().err)

    assert code == 2
    assert len(errors) == 1
    assert "s3://nowhere/x/cache/" in errors[0]
    assert ": cannot be written: " in errors[0]
    assert list(tmp_path.iterdir()) == []
