"""Warnings of a snapshot, each with its severity, and inputs without any."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_core.load.unread import Attribution
from cluster_core.memory.model import Exactness
from cluster_core.topology.nodes_text import read_nodes
from schemas.caveats import Caveat
from schemas.interim import UnitFacts, joined
from slotscope.transforms import snapshot_warnings as warnings
from slotscope.transforms.snapshot_warnings import ForeignKeys

A, B = "a" * 40, "b" * 40
NODES = read_nodes(
    f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-8191\n"
    f"{B} 10.0.0.2:6380@16380 master - 0 0 2 connected 8192-16000\n".encode()
)
MODEL = "redis 7.0, jemalloc-16"
MEASURED = {"memory_model": MODEL, "memory_estimate": "model", "unmeasured_keys": 0}
OWNERS = {"a.rdb": Attribution(A, "name"), "b.rdb": Attribution(A, "keys"), "/log": Attribution(A, "keys")}
NOBODY = {name: Attribution(None, "unknown") for name in OWNERS}


def unit(source: str = "a.rdb", **facts: Any) -> UnitFacts:
    return UnitFacts(**{"source": source, "kind": "rdb", "keys": 10, "file_bytes": 1000, **facts})


def log(**facts: Any) -> UnitFacts:
    return unit("/log", kind="aof", file="/log/x", **{"role": "increment", **facts})


def codes_of(caveats: list[Caveat]) -> list[tuple[str, str]]:
    return [(str(caveat.severity), str(caveat.code)) for caveat in caveats]


@pytest.mark.parametrize(
    ("caveats", "code", "text"),
    [
        (
            warnings.find_foreign([ForeignKeys("a.rdb", A, 9), ForeignKeys("a.rdb", B, 3), ForeignKeys("a.rdb", None, 1)], OWNERS, NODES),
            ("error", "foreign_keys"),
            ["3 keys in slots of 10.0.0.2:6380", "1 key in slots of nobody"],
        ),
        (warnings.find_twins([unit(), unit("b.rdb")], OWNERS, NODES), ("error", "same_node_twice"), ["counted 2 times"]),
        (
            warnings.find_twins([unit(aux={"repl-id": "f00"}), unit("b.rdb", aux={"repl-id": "f00"})], NOBODY, None),
            ("error", "same_node_twice"),
            ["counted 2 times"],
        ),
        (
            warnings.find_twins([unit(stored_crc="12"), unit("b.rdb", stored_crc="12")], NOBODY, None),
            ("error", "same_node_twice"),
            ["counted 2 times"],
        ),
        (warnings.find_twins([unit(), log(), log(role="state")], OWNERS, None), ("error", "same_node_twice"), []),
        (warnings.find_trailing([unit(trailing_bytes=12)]), ("warning", "trailing_bytes"), ["12 bytes after the end"]),
        (warnings.find_coverage(NODES, 4), ("error", "uncovered_slots"), ["383 slots without owner: 16001-16383", "4 keys"]),
        (
            warnings.find_bad([(f"{number}.rdb", 9, "odd\x1b[2J") for number in range(5)], 1234),
            ("error", "bad_records"),
            ["1,234 records could not be read", "and 1,229 more", r"odd\x1b"],
        ),
        (
            warnings.find_contradictions([unit(**MEASURED, aux={"used-mem": "100000000"}, memory_total=60_000_000)] * 2),
            ("note", "memory_exceeds"),
            [f"120 MB by the model {MODEL}", "100 MB in all"],
        ),
        (
            warnings.find_cuts([log(cut="the log ends inside a command: 3 bytes are not loaded", loaded_end=42)]),
            ("warning", "log_truncated"),
            ["/log/x", "offset 42"],
        ),
        (
            warnings.find_uncertain([log(role="state", not_modelled="bf.add (2)", uncertain_keys=1)]),
            ("warning", "uncertain_keys"),
            ["bf.add (2); 1 key uncertain"],
        ),
        (
            warnings.find_uncertain([log(role="state", replayed_to="/log/x: offset 9")]),
            ("error", "log_damaged"),
            ["/log/x: offset 9"],
        ),
    ],
)  # fmt: skip
def test_a_warning_names_the_input_and_the_figures(
    caveats: list[Caveat], code: tuple[str, str], text: list[str]
) -> None:
    assert codes_of(caveats) == [code]
    assert [word for word in text if word not in caveats[0].text] == []
    assert caveats[0].text.isprintable()


def test_sound_inputs_have_no_warning() -> None:
    fits = unit(**MEASURED, aux={"used-mem": "100000000", "repl-id": "0" * 40}, memory_total=101_000_000)
    sound = unit("b.rdb", trailing_bytes=0, stored_crc="a" * 16)

    assert warnings.find_foreign([ForeignKeys("a.rdb", A, 9)], OWNERS, NODES) == []
    assert warnings.find_twins([unit(), unit()], OWNERS, NODES) == []
    assert warnings.find_twins([fits, unit("b.rdb", stored_crc="0" * 16)], NOBODY, None) == []
    assert warnings.find_twins([unit(), log()], OWNERS, None) == []
    assert warnings.find_coverage(None, 4) == warnings.find_bad([], 0) == []
    assert warnings.find_trailing([sound]) == []
    assert warnings.find_contradictions([fits]) == warnings.find_cuts([log()]) == []
    assert warnings.find_uncertain([log(role="state", not_modelled="")]) == []


def test_keys_without_a_model_make_the_figures_partial_wherever_they_are_from() -> None:
    nameless = unit("/old.rdb", keys=7, memory_model="none", unmeasured_keys=7)
    listed = unit("/keys.txt", kind="text", keys=5)

    basis = warnings.memory_basis([unit(**MEASURED | {"unmeasured_keys": 2}), nameless, listed])

    assert basis == (MODEL, Exactness.PARTIAL, 14)
    assert basis.caveat == "without 14 keys that no model knows"


def test_a_file_read_in_ranges_has_the_sum_of_its_ranges() -> None:
    first = unit(hollow_keys=2, records=7, ctime=5, hollow_key="h")
    second = unit(hollow_keys=3, ctime=5, stored_crc="12", records=0)

    whole = joined(first, second)

    assert (whole.keys, whole.file_bytes) == (20, 1000)
    counts = {"hollow_keys": "5", "hollow_key": "h", "records": "7", "ctime": "5", "stored_crc": "12"}
    assert whole.texts() == counts


def test_the_later_of_two_readings_of_a_log_counts_and_its_files_add_up() -> None:
    first = unit("/d", kind="aof", file_bytes=600, role="base", missed_log_keys=9, cut="torn", keys=0)
    second = unit("/d", kind="aof", file_bytes=400, role="increment", missed_log_keys=0, keys=0)

    whole = joined(first, second)

    assert whole.file_bytes == 1000
    assert whole.texts() == {"role": "increment", "missed_log_keys": "0", "cut": "torn"}
