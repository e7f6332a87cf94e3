"""Files that are written: good up to the last flush wherever a recorder is killed, finished at the right time, whole on a full disk."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.formats.landing import Kind, read_name
from slotscope.recording.series import FLUSH_NS, Rotation, Series, recover

S = 1_000_000_000
NOW = 1_795_390_560 * S


def plain(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def finished(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if not path.name.startswith("."))


@settings(max_examples=40)
@given(st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=6), st.floats(0, 1))
def test_a_file_cut_anywhere_holds_all_flushes_before_the_cut(tmp_path_factory, lines, where):
    folder = tmp_path_factory.mktemp("cut")
    series, sizes = Series(folder, Kind.POLLS, Rotation(60 * S, 1 << 20)), [0]
    for line in lines:
        series.add(line, NOW, NOW)
        series.flush(NOW)
        sizes.append((folder / series.partial).stat().st_size)
    partial = folder / series.partial
    cut = int(where * sizes[-1])
    os.truncate(partial, cut)
    whole = sum(size <= cut for size in sizes) - 1

    actual = recover(partial)

    assert actual is not None
    assert actual.torn == (cut not in sizes)
    assert [plain(path) for path in finished(folder)] == ([b"".join(lines[:whole])] if whole else [])
    assert not partial.exists()


def test_files_end_at_multiples_of_the_time_and_follow_one_another(tmp_path):
    """So that those of all points end together."""
    series = Series(tmp_path, Kind.BUS, Rotation(60 * S, 1 << 20))
    series.head = b"head"
    series.begin(NOW + 13 * S)
    turned = [second for second in range(13, 200) if series.turn(NOW + second * S)]
    series.end(NOW + 200 * S)
    names = [read_name(path.name) for path in finished(tmp_path)]

    series.begin(NOW + 200 * S)
    assert series.turn(NOW - 3600 * S), "the clock was set back by an hour"
    assert f"{series.partial:.16}" == ".20261122T223600"
    assert turned == [60, 120, 180]
    assert [(name.from_ns - NOW, (name.to_ns or 0) - NOW) for name in names if name] == [
        (13 * S, 60 * S), (60 * S, 120 * S), (120 * S, 180 * S), (180 * S, 200 * S)
    ]  # fmt: skip
    assert {plain(path) for path in finished(tmp_path)} == {b"head"}


def test_a_file_ends_at_its_size(tmp_path):
    series = Series(tmp_path, Kind.POLLS, Rotation(3600 * S, 5000))
    for second in range(20):
        series.add(os.urandom(1000), NOW + second * S, NOW)
        series.turn(NOW + second * S + FLUSH_NS)
    series.end(NOW + 30 * S)

    assert len(finished(tmp_path)) == 4
    assert all(path.stat().st_size < 6500 for path in finished(tmp_path))


def test_a_link_is_not_followed(tmp_path):
    """Somebody else's file is not cut."""
    other = tmp_path / "other"
    other.write_bytes(gzip.compress(b"x") + b"torn")
    link = tmp_path / ".20261122T233600.000000Z.pcap.gz.partial"
    link.symlink_to(other)

    assert recover(link) is None
    assert other.read_bytes().endswith(b"torn")
