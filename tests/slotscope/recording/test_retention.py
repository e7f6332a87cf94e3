"""Which files go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotscope.recording.retention import Bounds, Stored, files_to_delete

FILES = st.lists(
    st.tuples(st.integers(0, 100), st.none() | st.integers(0, 100)), max_size=12
).map(lambda found: [Stored(f"f{number}", size, to_ns) for number, (size, to_ns) in enumerate(found)])  # fmt: skip


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


def _is_needed(last: Stored, left: list[Stored], bytes_max: int, age_max: int | None, now: int) -> bool:
    """Whether the newest of what goes would be too old, or too much."""
    is_old = age_max is not None and (last.to_ns or 0) < now - age_max
    return is_old or sum(file.size for file in left) + last.size > bytes_max


def test_what_is_being_written_counts_and_stays():
    written = Stored("w", 80, None)
    old, new = Stored("a", 30, 1), Stored("b", 15, 2)

    assert files_to_delete([written, new, old], Bounds(100), 9) == [old]
    assert files_to_delete([written, new, old], Bounds(10), 9) == [old, new]
