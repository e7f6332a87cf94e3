"""How old the dumps of a report are."""

from __future__ import annotations

from dataclasses import replace

from schemas.interim import UnitFacts
from slotscope.transforms.snapshot_warnings import find_age, with_age
from tests.builders.reports_builder import empty_report, source_row


def dump(source: str, ctime: int | None) -> UnitFacts:
    """A dump that says when it was begun."""
    return UnitFacts(source=source, kind="rdb", keys=1, file_bytes=1, ctime=ctime)


def test_an_age_is_counted_from_the_newest_time_that_is_known():
    """Of this report, of another dump, of a log's end; without any there is no warning."""
    first, second = dump("a.rdb", 1000), dump("b.rdb", 1060)
    log = UnitFacts(source="log", kind="aof", last_s=5_000)

    assert find_age([first]) == find_age([dump("c.rdb", None), log]) == []
    assert (
        "later writes are missing: a.rdb started 1970-01-01 00:16:40 UTC, 60 s before the newest time known"
        in find_age([first, second])[0].text
    )
    assert "66 min 40 s before the newest time known" in find_age([first, log])[0].text
    sources = [source_row(unit.source, facts=unit.words()) for unit in (first, second)]
    (warning,) = with_age(
        replace(empty_report(), sources=sources, warnings=find_age([first, log])), 87_400_000
    ).warnings
    assert (warning.severity, warning.code) == ("note", "snapshot_age")
    assert warning.text.endswith("24 h before this report; 2 dumps started within 60 s")
