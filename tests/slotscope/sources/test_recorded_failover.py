"""The recorded failovers, read by every reader: packets, polls and logs tell one story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster_core.formats.capture.bus_capture import CapturedMessage
from cluster_core.replay.log_clock import Told, compare_clocks
from cluster_core.wire.bus_message import Fail, MessageType
from jobs.bus_dump import is_damage, read_rows
from slotscope.sources.bus.capture_points import PointClocks
from slotscope.sources.bus.evidence import CaptureOptions
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.sources.bus.recording import replay
from slotscope.sources.node_polls import PollFile
from slotscope.sources.server_logs import LogLine, LogOptions, ServerLog

RECORDINGS = ("bus-valkey-9.1", "bus-redis-7.0")


@pytest.fixture(params=RECORDINGS)
def recording(request, data: Path) -> Path:
    """The folder of one recording."""
    return data / request.param


def facts_of(recording: Path) -> dict[str, Any]:
    return json.loads((recording / "recording.json").read_text())


def moments(recording: Path) -> dict[str, int]:
    """When what was done."""
    return {action["action"]: action["time"] for action in facts_of(recording)["actions"]}


def log_lines(recording: Path) -> dict[int, list[LogLine]]:
    """Lines by port."""
    return {int(path.name.split(".")[0]): list(ServerLog(str(path), LogOptions())) for path in recording.glob("logs/*")}


def test_every_log_says_whose_it_is(recording):
    """Port and id, as recorded beside it."""
    nodes = {node["port"]: node["id"] for node in facts_of(recording)["nodes"]}
    owners = {}
    for path in recording.glob("logs/*"):
        log = ServerLog(str(path), LogOptions())
        assert {line.observer for line in log} == {log.owner.node_id}
        owners[log.owner.port] = log.owner.node_id

    assert owners == nodes


def test_every_packet_is_understood(recording):
    """No gap, no unknown byte; messages of all six nodes."""
    rows = [row for _, row in read_rows([str(recording / "bus.pcap.gz")], PointClocks())]
    messages = [row for row in rows if isinstance(row, CapturedMessage)]

    assert not any(map(is_damage, rows))
    assert {row.sender for row in messages} == {node["id"] for node in facts_of(recording)["nodes"]}
    assert {MessageType.MEET, MessageType.FAIL, MessageType.AUTH_REQUEST, MessageType.AUTH_ACK} <= {
        row.decode().type for row in messages
    }


@pytest.mark.long
def test_polls_show_the_new_owner(recording):
    """Every node is polled; the last answers agree on a new owner of slot 0, the first ones on the old one."""
    dead = facts_of(recording)["actions"][0]["port"]
    at = moments(recording)
    owners = [(poll.ts_ns, poll.topology.owner_of(0)) for poll in PollFile(str(recording / "polls.jsonl.gz"))]

    assert {owner.port for ts_ns, owner in owners if ts_ns < at["kill"]} == {dead}
    assert dead not in {owner.port for ts_ns, owner in owners if ts_ns > at["follows"]}


def test_logs_and_packets_tell_the_verdict_at_the_same_time(recording):
    """R160 and the wire: who decided FAIL, and who started an election, within the tolerance of clocks."""
    capture = [
        row for _, row in read_rows([str(recording / "bus.pcap.gz")], PointClocks()) if isinstance(row, CapturedMessage)
    ]
    differences = []
    for lines in log_lines(recording).values():
        observer = lines[0].observer
        told = [Told(row.ts_ns, row.kind, row.subject, row.epoch or 0) for row in (line.row for line in lines)]
        difference = compare_clocks(told, captured_events(capture, observer))
        if difference is not None:
            differences.append(difference)

    assert sum(difference.pairs for difference in differences) >= 2
    assert [difference.warning for difference in differences if difference.warning] == []


def captured_events(capture: list[CapturedMessage], observer: str) -> list[Told]:
    """The first FAIL about each node, and the first request of each epoch, that *observer* sent."""
    found: dict[tuple[str, str, int], Told] = {}
    for row in capture:
        message = row.decode()
        if row.sender != observer or message.type not in (MessageType.FAIL, MessageType.AUTH_REQUEST):
            continue
        if isinstance(message.body, Fail):
            told = Told(row.origin.ts_ns, "fail-decided", message.body.node)
        else:
            told = Told(row.origin.ts_ns, "election-started", "", message.header.current_epoch)
        found.setdefault(told[1:], told)
    return list(found.values())


def test_the_story_of_the_logs_is_in_order(recording):
    """FAIL, election, win, all between the kill and the end of the wait for it."""
    at = moments(recording)
    events = sorted(row for lines in log_lines(recording).values() for row in (line.row for line in lines))
    first = {
        kind: next(row.ts_ns for row in events if row.kind == kind and row.ts_ns > at["kill"])
        for kind in ("fail-decided", "election-started", "vote", "election-won")
    }

    assert list(first.values()) == sorted(first.values())
    assert first["election-won"] < at["promoted"]


def test_the_replica_of_a_dead_master_without_slots_follows_the_winner_by_the_rules(data: Path) -> None:
    """R73 of Valkey 8.0.1: the machine says so by itself, at the time of the server's "Reconfiguring myself as a replica"."""
    files = survey(find_captures([str(data / "bus-valkey-8.0" / "empty-failover.jsonl.gz")]))
    winner, logged_ns = "c059dd80d2d832126ea610524a0b1d334ea4cf5c", 1795331359_173_000_000

    followed = [row for row in replay(CaptureOptions(tuple(files), PollsAndLogs())).views if row.cause == "R73"]

    assert [(row.observer == row.node_id, row.master_id) for row in followed] == [(True, winner)]
    assert abs(followed[0].valid_from_ns - logged_ns) < 150_000_000
