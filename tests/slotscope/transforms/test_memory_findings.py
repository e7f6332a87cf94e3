"""What is said about sizes in memory, and when nothing is."""

from __future__ import annotations

from typing import Any

from cluster_core.memory.model import Exactness
from schemas.interim import UnitFacts
from slotscope.transforms import snapshot_warnings

MODEL = "redis 7.0, jemalloc-16"


def unit(source: str = "/d.rdb", **facts: Any) -> UnitFacts:
    return UnitFacts(
        **{
            "source": source,
            "kind": "rdb",
            "keys": 10,
            "file_bytes": 1000,
            "memory_model": MODEL,
            "memory_estimate": "model",
            "unmeasured_keys": 0,
            **facts,
        }
    )


def test_a_dump_that_fits_its_server_is_nothing_to_speak_of():
    fits = unit(aux={"used-mem": "100000000"}, memory_total=101000000)

    assert snapshot_warnings.find_unmeasured([fits]) == []
    assert snapshot_warnings.find_contradictions([fits]) == []


def test_keys_of_unknown_layout_are_counted_over_the_parts_of_a_dump():
    (note,) = snapshot_warnings.find_unmeasured([unit(unmeasured_keys=2), unit(unmeasured_keys=1), unit("/other")])

    assert (note.severity, note.code) == ("note", "memory_unknown")
    assert "/d.rdb: 3 keys" in note.text


def test_keys_that_exceed_what_the_server_used_point_at_the_allocator():
    parts = [unit(aux={"used-mem": "100000000"}, memory_total=60000000) for _ in range(2)]
    (note,) = snapshot_warnings.find_contradictions(parts)

    assert (note.severity, note.code) == ("note", "memory_exceeds")
    assert "120 MB by the model redis 7.0, jemalloc-16" in note.text
    assert "100 MB in all" in note.text


def test_keys_without_a_model_make_the_figures_partial_wherever_they_are_from():
    nameless = UnitFacts(source="/old.rdb", kind="rdb", keys=7, file_bytes=1000, memory_model="none", unmeasured_keys=7)
    listed = UnitFacts(source="/keys.txt", kind="text", keys=5, file_bytes=1000)
    basis = snapshot_warnings.memory_basis([unit(unmeasured_keys=2), nameless, listed])

    assert basis == (MODEL, Exactness.PARTIAL, 14)
    assert basis.caveat == "without 14 keys that no model knows"
