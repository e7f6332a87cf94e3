"""Logs that grow, are rotated in the usual ways, and recorders that are killed in between: every line once."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.formats.landing import Gap, Kind, Reason, latest
from slotscope.recording.gap_book import GapBook
from slotscope.recording.log_rotation import Mark, Sight, Step, steps_of
from slotscope.recording.logs import BACKLOG_BYTES_MAX, LogFollower, mark_of
from slotscope.recording.series import Rotation, Series, recover, whole_members

S = 1_000_000_000
T0 = 1_795_390_560 * S


class Bench:
    """A log, and a recorder of it that can be killed; its clock is of its own, which files have, too."""

    def __init__(self, folder: Path) -> None:
        self.log, self.landing = folder / "server.log", folder / "logs"
        self.now_ns = T0
        self.number = self.seen_bytes = 0
        self.saved: dict[str, Any] | None = None
        self.gaps = GapBook(folder / "gaps.jsonl", lambda line: None)
        self.expected: list[bytes] = []
        self.follower = self.start()

    def start(self) -> LogFollower:
        """As the recorder does: half-written files first, then go on where they end."""
        for partial in sorted(self.landing.glob(".*.partial")):
            recover(partial)
        mark = mark_of(self.saved, self._plain_bytes)
        series = Series(self.landing, Kind.LOGS, Rotation(10 * S, 1 << 20), "n")
        self.follower = LogFollower(str(self.log), series, self.gaps, self._save, mark, self.now_ns)
        return self.follower

    def _plain_bytes(self, name: str) -> int:
        stem = name.removeprefix(".").partition(".log.gz")[0]
        return sum(whole_members(path)[1] for path in self.landing.glob(f"{stem}_*"))

    def _save(self) -> None:
        self.saved = self.follower.saved()

    def write(self, count: int) -> None:
        """So many lines more, each of its own."""
        lines = [b"%d:M line %d %s\n" % (self.number + at, self.number + at, b"x" * 40) for at in range(count)]
        self.number += count
        with open(self.log, "ab") as file:
            file.write(b"".join(lines))
        self._date(self.log)
        self.expected += lines

    def _date(self, *files: Path) -> None:
        """Files change after the last look."""
        self.now_ns += S // 100
        for file in files:
            os.utime(file, ns=(self.now_ns, self.now_ns))

    def turn(self, seconds: float = 0.25) -> None:
        self.now_ns += int(seconds * S)
        self.follower.turn(self.now_ns)
        self.seen_bytes = self.log.stat().st_size if self.log.exists() else 0

    def settle(self) -> None:
        """Look until a renamed log was left."""
        for _ in range(16):
            self.turn()

    def rename(self) -> None:
        """As logrotate does with ``create``."""
        for number in range(8, 0, -1):
            if (old := Path(f"{self.log}.{number}")).exists():
                old.rename(f"{self.log}.{number + 1}")
        if self.log.exists():
            self.log.rename(f"{self.log}.1")
        self.log.touch()
        self._date(self.log)

    def copy_and_truncate(self) -> None:
        """As logrotate does with ``copytruncate``; an empty log that is filled and truncated between two looks cannot be told."""
        if not self.seen_bytes:
            self.turn()
        for number in range(8, 0, -1):
            if (old := Path(f"{self.log}.{number}")).exists():
                old.rename(f"{self.log}.{number + 1}")
        if self.log.exists():
            shutil.copy(self.log, f"{self.log}.1")
            os.truncate(self.log, 0)
            self._date(Path(f"{self.log}.1"), self.log)

    def recorded(self) -> list[bytes]:
        """All lines of finished files."""
        files = sorted(path for path in self.landing.glob("*") if not path.name.startswith("."))
        return b"".join(gzip.decompress(path.read_bytes()) for path in files).splitlines(keepends=True)

    def end(self) -> None:
        self.settle()
        self.follower.close(self.now_ns)


STEPS = st.lists(
    st.sampled_from(["write", "write", "turn", "turn", "long turn", "rename", "copy", "kill", "stop"]), max_size=25
)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_line_is_recorded_once_whatever_is_rotated_and_killed(tmp_path_factory, steps):
    """Kills lose what was not flushed, which is read again; rotations happen while nobody looks, too."""
    bench = Bench(tmp_path_factory.mktemp("log"))
    bench.write(3)
    bench.turn()
    for step in steps:
        match step:
            case "write":
                bench.write(2)
            case "turn":
                bench.turn()
            case "long turn":
                bench.turn(3)
            case "rename":
                bench.rename()
            case "copy":
                bench.copy_and_truncate()
            case "kill":
                bench.start()
            case "stop":
                bench.follower.close(bench.now_ns)
                bench.start()
    bench.end()

    assert bench.recorded() == bench.expected
    assert [gap for gap in bench.gaps.read() if gap.reason is Reason.LOG_LOST] == []


def test_a_rotated_part_that_was_removed_is_said_to_be_lost(tmp_path):
    bench = Bench(tmp_path)
    bench.write(3)
    bench.turn(3)
    bench.follower.close(bench.now_ns)
    bench.write(2)
    bench.rename()
    Path(f"{bench.log}.1").unlink()
    bench.write(1)
    bench.start()
    bench.end()

    assert bench.recorded() == [*bench.expected[:3], bench.expected[5]]
    assert [(gap.kind, gap.reason, gap.subject) for gap in bench.gaps.read()] == [
        (Kind.LOGS, Reason.LOG_LOST, str(bench.log))
    ]


def test_a_log_that_is_missing_is_said_until_it_is_there(tmp_path):
    bench = Bench(tmp_path)
    bench.turn()
    bench.turn()
    bench.write(2)
    bench.turn()
    there_ns = bench.now_ns
    bench.end()

    assert bench.recorded() == bench.expected
    assert latest(bench.gaps.read()) == [Gap(Kind.LOGS, T0 + S // 4, there_ns, Reason.LOG_MISSING, str(bench.log))]


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path):
    bench = Bench(tmp_path)
    bench.log.write_bytes(b"one\ntw")
    bench.turn()
    with open(bench.log, "ab") as file:
        file.write(b"o\n")
    bench.end()

    assert bench.recorded() == [b"one\n", b"two\n"]
    assert bench.follower.lines == 2


def test_of_an_old_log_the_end_is_recorded_from_a_whole_line(tmp_path):
    bench = Bench(tmp_path)
    line = b"y" * 99 + b"\n"
    bench.log.write_bytes(line * (BACKLOG_BYTES_MAX // 100 + 5000))
    bench.end()

    assert set(bench.recorded()) == {line}
    assert BACKLOG_BYTES_MAX - 100 <= 100 * len(bench.recorded()) <= BACKLOG_BYTES_MAX


@pytest.mark.parametrize("saved", [None, 3, [], {}, {"inode": 1}, {"inode": [1, 2], "offset": "x", "head": "", "partial": ""}, {"inode": [1, 2], "offset": 1, "head": "z", "partial": ""}, {"inode": [1, 2], "offset": -1, "head": "", "partial": ""}])  # fmt: skip
def test_a_state_that_is_nonsense_is_none(saved):
    assert mark_of(saved, lambda name: 0) is None


def test_an_inode_that_was_given_to_another_file_is_not_gone_on_with():
    """The first bytes tell."""
    mark = Mark((1, 7), 100, b"old log")
    current = Sight("a.log", (1, 7), 500, 50, b"another log")
    rotated = Sight("a.log.1", (1, 8), 120, 40, b"old log")

    assert steps_of(mark, current, [rotated], 0) == ([Step(rotated, 100), Step(current, 0)], "")


def test_a_compressed_part_is_named_as_lost():
    mark = Mark((1, 7), 100, b"old log")
    current, packed = Sight("a.log", (1, 9), 5, 50, b"new"), Sight("a.log.1.gz", (1, 7), 60, 45, b"\x1f\x8b")

    steps, lost = steps_of(mark, current, [packed], 40)

    assert steps == [Step(current, 0)]
    assert "a.log.1.gz is compressed" in lost
