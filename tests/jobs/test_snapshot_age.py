"""How old dumps are and what was written since, from polls of INFO to the report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cluster_core.errors import DecodeError
from cluster_core.load.persistence import Persistence
from jobs.key_slots import Request, run
from schemas.bronze import BAD_RECORDS
from schemas.interim import UnitFacts
from slotscope.reports.keyspace.report import Source
from slotscope.runtime.failure import BAD_INPUT
from slotscope.runtime.settings import read_settings
from slotscope.servers.cluster import Access, Address, NodePoll, Schedule
from slotscope.sources.persistence_polls import read_persistence_polls
from slotscope.transforms.age_findings import NODES_TOLD, find_age, find_since, find_unsaved, with_age
from tests.benches.program import slotscope
from tests.builders.reports_builder import empty_report
from tests.conftest import DATA

INFO = "# Persistence\r\nrdb_changes_since_last_save:{changes}\r\nrdb_last_save_time:1795263531\r\naof_enabled:0\r\nrdb_last_bgsave_status:ok\r\n"
DUMP = DATA / "valkey-9.1" / "before" / "node-7002.rdb"
BEGUN_S = 1_795_263_531


def line(node: str = "10.0.0.1:7000", changes: int = 5, at_s: int = BEGUN_S + 90, **more: object) -> str:
    """One poll as a line of a file."""
    return json.dumps({"time": at_s, "node": node, "persistence": INFO.format(changes=changes), **more}) + "\n"


def dump(source: str, ctime: int | None) -> UnitFacts:
    """A dump that says when it was begun."""
    return UnitFacts(source=source, kind="rdb", keys=1, file_bytes=1, ctime=ctime)


def test_the_newest_poll_of_each_node_counts(tmp_path):
    """Whatever the order of the lines; the port stands for a node without address."""
    (tmp_path / "a.jsonl").write_text(
        line(changes=9, at_s=BEGUN_S + 95, save="60 1") + line() + "\n" + json.dumps({"ts_ns": 1, "text": "x"}) + "\n"
    )
    (tmp_path / "b.txt").write_text("tcp_port:7002\r\nserver_time_usec:1795263631000000\r\n" + INFO.format(changes=3))
    polls = read_persistence_polls([str(tmp_path / "a.jsonl"), str(tmp_path / "b.txt")])

    assert [(poll.node, poll.changes, poll.at_ms) for poll in polls] == [
        ("10.0.0.1:7000", 9, (BEGUN_S + 95) * 1000),
        (":7002", 3, 1_795_263_631_000),
    ]
    assert polls[0].points == ((60, 1),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line() + "{broken\n", "not a line of JSON"),
        ("{}\n[1]\n", "a poll is a JSON object"),
        ("hello\n", "does not tell its time"),
        ("", "no reply of INFO persistence"),
        ("{}\n", "no reply of INFO persistence"),
        ("[" * 200_000, "does not tell its time"),
        ('{"a":' * 200_000, "not a line of JSON"),
    ],
)
def test_a_file_that_holds_none_is_an_error_with_its_place_or_is_set_aside(tmp_path, text, reason):
    (tmp_path / "f").write_text(text)
    bad: list[DecodeError] = []
    with pytest.raises(DecodeError, match=reason):
        read_persistence_polls([str(tmp_path / "f")])
    read_persistence_polls([str(tmp_path / "f")], bad=bad)

    assert [reason in error.reason for error in bad] == [True]


def test_an_age_is_counted_from_the_newest_time_that_is_known():
    """This report, a poll, another dump; without any, nothing is said."""
    first, second = dump("a.rdb", 1000), dump("b.rdb", 1060)
    poll = Persistence("n", 5_000_000, 1, 1, None, None, None, None)

    assert find_age([first], []) == find_age([dump("c.rdb", None)], [poll]) == []
    assert (
        "later writes are missing: a.rdb started 1970-01-01 00:16:40 UTC, 1 min before the newest time known"
        in find_age([first, second], [])[0].text
    )
    assert "1 h 6 min before the newest time known" in find_age([first], [poll])[0].text
    sources = [Source(unit.source, "rdb", None, 1, 1, unit.words()) for unit in (first, second)]
    (warning,) = with_age(
        replace(empty_report(), sources=sources, warnings=find_age([first], [poll])), 87_400_000
    ).warnings
    assert (warning.severity, warning.code) == ("note", "snapshot_age")
    assert warning.text.endswith("1 d before this report; 2 dumps started within 1 min")


def test_the_nodes_that_would_lose_most_come_first_and_the_rest_is_summed():
    polls = [
        Persistence(f"n{number}", 2000, 1000, number, None, None, number == 3, None) for number in range(NODES_TOLD + 3)
    ]
    found = find_unsaved(polls)

    assert found[0].text.startswith("n7 last saved")
    assert found[-1].text == "3 more nodes: 3 changes that only memory holds"
    assert [warning.severity for warning in found] == ["note"] * 4 + ["warning", "note"]


def test_a_dump_is_known_by_its_replication_id():
    """Offsets count what was written since; a later save means that there is a newer dump."""
    replid = "ab" * 20
    dumps = [
        UnitFacts(
            source="a.rdb", kind="rdb", keys=1, file_bytes=1, ctime=1000, aux={"repl-id": replid, "repl-offset": "500"}
        ),
        UnitFacts(
            source="b.rdb",
            kind="rdb",
            keys=1,
            file_bytes=1,
            ctime=1000,
            aux={"repl-id": "cd" * 20, "repl-offset": "500"},
        ),
        UnitFacts(source="c.rdb", kind="rdb", keys=1, file_bytes=1, ctime=1000),
    ]
    poll = Persistence("n:1", 2_000_000, 1_003_000, 1, None, None, None, 2, replid, 1_734)

    (found,) = find_since(dumps, [poll])
    assert found.text == "a.rdb: n:1 has written 1,234 bytes of commands since this dump was begun"
    (found,) = find_since(dumps, [poll._replace(last_save_ms=1_900_000)])
    assert found.text.endswith("it has saved again since, so there is a newer dump")
    assert find_since(dumps, [poll._replace(offset=400)]) == []
    assert find_since(dumps, [poll._replace(offset=None)]) == []


@pytest.mark.slow
def test_the_report_says_how_old_the_dumps_are_and_what_is_unsaved(spark, tmp_path):
    """key-slots --info; in permissive mode a bad file of polls is counted."""
    (tmp_path / "polls.jsonl").write_text(line(changes=1234, save="300 100"))
    (tmp_path / "bad.jsonl").write_text("{]\n")
    request = Request(
        root=str(tmp_path / "root"), rdb=[str(DUMP)], mode="permissive",
        info=[str(tmp_path / "polls.jsonl"), str(tmp_path / "bad.jsonl")],
    )  # fmt: skip
    report = run(spark, request, read_settings())
    texts = {warning.code: warning.text for warning in report.warnings}

    assert f"{DUMP} started 2026-11-21 12:18:51 UTC, 1 min 30 s before the newest time known" in texts["snapshot_age"]
    assert "10.0.0.1:7000 last saved 1 min 30 s before it was asked, 1,234 changes ago" in texts["unsaved_changes"]
    assert "saves after 300 s with 100 changes" in texts["unsaved_changes"]
    assert report.bad_records == 1
    rows = spark.read.format("delta").load(f"{tmp_path}/root/{BAD_RECORDS.name}").collect()
    assert [(row["source"], row["offset"]) for row in rows] == [(str(tmp_path / "bad.jsonl"), 1)]


def test_strict_mode_refuses_bad_polls_before_spark_starts(tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text("{]\n")
    code = slotscope("key-slots", "--root", tmp_path / "root", "--rdb", DUMP, "--info", tmp_path / "bad.jsonl")

    assert code == BAD_INPUT
    assert "bad.jsonl: offset 1: not a line of JSON" in capsys.readouterr().err


def test_collect_asks_for_persistence_when_told_to(valkey_cluster_node, tmp_path):
    """What a live node answers is what --info reads."""
    poll = NodePoll(Address("127.0.0.1", valkey_cluster_node.port), Access(), Schedule(1.0, persistence_s=0))
    answer = poll.ask()
    poll.close()
    (tmp_path / "polls.jsonl").write_text(answer.line())
    (told,) = read_persistence_polls([str(tmp_path / "polls.jsonl")])

    assert told.node == f"127.0.0.1:{valkey_cluster_node.port}"
    assert told.points == ()
    assert told.log is False
