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


def test_small_servers_and_hostile_figures_are_not_judged():
    small = unit(aux={"used-mem": "1000000"}, memory_total=9000000)
    hostile = [unit(aux={"used-mem": words}, memory_total=90000000) for words in ("", "-5", "9" * 40, "\u0665")]

    assert snapshot_warnings.find_contradictions([small, *hostile]) == []


def test_figures_of_known_servers_are_their_models_alone():
    basis = snapshot_warnings.memory_basis([unit(), unit("/other", memory_model="valkey 9.1, libc")])

    assert basis == ("redis 7.0, jemalloc-16; valkey 9.1, libc", Exactness.MODEL, 0)
    assert basis.caveat == ""


def test_one_dump_of_an_unknown_server_marks_the_whole_snapshot():
    other = unit("/other", memory_model="redis 8.0, libc", memory_estimate="nearest", aux={"redis-ver": "8.2.1"})
    basis = snapshot_warnings.memory_basis([unit(), other])
    (note,) = snapshot_warnings.find_nearest([unit(), other, other])

    assert basis is not None
    assert basis.exactness == Exactness.NEAREST
    assert "error not known" in basis.caveat
    assert "/other: written by redis 8.2.1" in note.text
    assert "redis 8.0, libc; the error is not known" in note.text


def test_keys_without_a_model_make_the_figures_partial_wherever_they_are_from():
    nameless = UnitFacts(source="/old.rdb", kind="rdb", keys=7, file_bytes=1000, memory_model="none", unmeasured_keys=7)
    listed = UnitFacts(source="/keys.txt", kind="text", keys=5, file_bytes=1000)
    basis = snapshot_warnings.memory_basis([unit(unmeasured_keys=2), nameless, listed])

    assert basis == (MODEL, Exactness.PARTIAL, 14)
    assert basis.caveat == "without 14 keys that no model knows"


def test_without_any_model_there_are_no_figures_of_memory():
    assert (
        snapshot_warnings.memory_basis(
            [UnitFacts(source="/d.rdb", kind="rdb", keys=7, file_bytes=1000, memory_model="none")]
        )
        is None
    )
