"""The folder of a point: its bounds, and foreign files in it."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cluster_core.formats.landing import Gap, Kind, Reason, RecordedFile, latest
from slotscope.recording.point import Bounds, Point, PointFile, files_to_delete
from slotscope.recording.series import Rotation

S = 1_000_000_000


def point_in(folder: Path, bytes_max: int = 1000) -> Point:
    return Point(folder / "cache" / "one", Rotation(60 * S, 100), Bounds(bytes_max), lambda line: None)


def test_the_oldest_files_of_all_kinds_go_and_strange_ones_stay(tmp_path):
    point = point_in(tmp_path)
    point.open(0)
    for number, kind in enumerate((Kind.BUS, Kind.POLLS, Kind.BUS, Kind.LOGS)):
        path = point.folder / kind / RecordedFile("", number * S, (number + 1) * S, "pcap").name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 400)
    strange = point.folder / "bus" / "strange.pcap.gz"
    strange.write_bytes(b"x" * 5000)
    (point.folder / "bus" / RecordedFile("", 9 * S, None, "pcap").name).write_bytes(b"x" * 100)

    left = point.keep_within_bounds(100 * S)
    point.close(100 * S)

    assert left == 900
    assert sorted(file.to_ns or 0 for file in point.stored()) == [0, 3 * S, 4 * S]
    assert strange.exists()


def test_an_open_gap_of_a_killed_recorder_ends_at_its_last_sign_of_life(tmp_path):
    killed = point_in(tmp_path)
    killed.open(1 * S)
    killed.gaps.hold(Gap(Kind.POLLS, 2 * S, None, Reason.UNREACHABLE, "10.0.0.1:7000"), True, 2 * S)
    killed.live(5 * S)
    os.close(killed._lock)  # as the kernel does
    (killed.folder / "gaps.jsonl").open("ab").write(b'{"kind": "bu')

    again = point_in(tmp_path)
    again.open(9 * S)
    (gap,) = latest(again.gaps.read())

    assert again.alive_ns == 5 * S
    assert (gap.from_ns, gap.to_ns, gap.subject) == (2 * S, 5 * S, "10.0.0.1:7000")


FILES = st.lists(
    st.tuples(st.integers(0, 100), st.none() | st.integers(0, 100)), max_size=12
).map(lambda sizes: [PointFile(f"f{number}", size, to_ns) for number, (size, to_ns) in enumerate(sizes)])  # fmt: skip


@given(FILES, st.integers(0, 300), st.none() | st.integers(1, 100), st.integers(0, 200))
def test_the_oldest_finished_files_go_as_few_as_will_do(files, bytes_max, age_max, now):
    gone = files_to_delete(files, Bounds(bytes_max, age_max), now)
    left = [file for file in files if file not in gone]
    ages = [file.to_ns for file in left if file.to_ns is not None]
    finished = [file for file in files if file.to_ns is not None]

    assert all(file.to_ns is not None for file in gone)
    assert sum(file.size for file in left) <= bytes_max or not ages
    assert age_max is None or all(end >= now - age_max for end in ages)
    assert not gone or not ages or max(file.to_ns or 0 for file in gone) <= min(ages)
    assert not gone or _is_needed(gone[-1], left, bytes_max, age_max, now)
    assert len(gone) <= len(finished)


def _is_needed(last: PointFile, left: list[PointFile], bytes_max: int, age_max: int | None, now: int) -> bool:
    """Whether the newest of what goes would be too old, or too much."""
    is_old = age_max is not None and (last.to_ns or 0) < now - age_max
    return is_old or sum(file.size for file in left) + last.size > bytes_max
