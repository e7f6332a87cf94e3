"""Server logs as files: nodes, compression, zones and bad lines."""

from __future__ import annotations

import gzip
import json
from datetime import UTC

import pytest

from cluster_core.errors import DecodeError
from slotscope.runtime.errors import InputError
from slotscope.sources.server_logs import LogOptions, ServerLog, find_logs, rotation_order, zone_of

A, B, C = "a" * 40, "b" * 40, "c" * 40
TIME = "21 Nov 2026 10:11:12.345"
MOMENT_NS = 1_795_255_872_345_000_000
LINES = (
    f"7:M {TIME} * Running mode=cluster, port=7000.\n"
    f"7:M {TIME} * No cluster configuration found, I'm {A}\n"
    f"7:M {TIME} # IP address for this node updated to 10.0.0.1\n"
    f"7:M {TIME} * Server initialized\n"
    f"7:M {TIME} * Failover auth granted to {B} for epoch 9\n"
    f"7:M {TIME} # Node hard reset, now I'm {C}\n"
    f"7:M {TIME} # Cluster state changed: fail\n"
)
EVENT = f"7:M {TIME} # Cluster state changed: fail\n"


def write(folder, name: str, text: str = LINES) -> str:
    path = folder / name
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


@pytest.mark.parametrize("name", ["node.log", "node.log.gz"])
def test_a_log_names_its_node_and_each_line_has_the_id_of_its_time(tmp_path, name):
    """CLUSTER RESET HARD changes the id (R82); files may be compressed."""
    log = ServerLog(write(tmp_path, name), LogOptions())

    lines = list(log)

    assert (log.owner.node_id, log.owner.address, log.owner.how) == (A, "10.0.0.1:7000", "lines")
    assert [(line.observer, line.row.kind) for line in lines[-3:]] == [(A, "vote"), (C, "identity"), (C, "state-fail")]
    assert log.lines == 7
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("name", "port"),
    [("7000.log", 7000), ("redis-17000.log.gz", 17000), ("2026-11-21_7000.log", 0), ("redis.log", 0), ("0999.log", 0)],
)
def test_a_port_in_the_name_identifies_a_log_without_an_id(tmp_path, name, port):
    """A log that was rotated begins after the start of the server; two numbers in a name tell nothing."""
    log = ServerLog(write(tmp_path, name, EVENT), LogOptions())

    (line,) = log

    assert (log.owner.port, line.observer) == (port, "")


@pytest.mark.parametrize(
    ("node", "owner"),
    [
        (B, (B, "", 0)),
        ("10.9.9.9:7009", ("", "10.9.9.9", 7009)),
        ("[::1]:7009", ("", "[::1]", 7009)),
        ("7009", ("", "", 7009)),
    ],
)
def test_the_users_mapping_overrides_the_lines(tmp_path, node, owner):
    path = write(tmp_path, "x.log")
    given = (f"x.log={node}",)

    (log_file,) = find_logs([path], given)
    log = ServerLog(log_file.path, LogOptions(given=given))
    observers = {line.observer for line in log}

    assert (log.owner.node_id, log.owner.ip, log.owner.port) == owner
    assert observers == {owner[0]}


@pytest.mark.parametrize("text", ["x.log", "x.log=", "x.log=not-a-node", f"y.log={A}"])
def test_a_mapping_that_names_no_log_or_no_node_is_refused(tmp_path, text):
    """A wish that would change nothing is a mistake of the user."""
    with pytest.raises(InputError, match=text.partition("=")[0]):
        find_logs([write(tmp_path, "x.log")], [text])


def test_a_bad_line_stops_a_strict_reader_and_is_counted_otherwise(tmp_path):
    path = write(tmp_path, "x.log", EVENT + "\udcff\udcfe broken\n" + EVENT)

    with pytest.raises(DecodeError, match="line 2: not a line of a server log") as caught:
        list(ServerLog(path, LogOptions()))
    log = ServerLog(path, LogOptions(permissive=True))
    lines = list(log)

    assert caught.value.offset == len(EVENT)
    assert len(lines) == 2
    assert [error.offset for error in log.bad] == [len(EVENT)]


def test_lines_of_other_programs_are_counted_and_a_file_of_nothing_else_is_bad(tmp_path):
    """An entrypoint writes before the server does."""
    log = ServerLog(write(tmp_path, "x.log", "Starting redis-server\n" + EVENT), LogOptions())

    assert len(list(log)) == 1
    assert log.foreign == 1
    with pytest.raises(DecodeError, match="line 1: not a line of a server log: 'Starting"):
        list(ServerLog(write(tmp_path, "y.log", "Starting redis-server\n"), LogOptions()))


def test_a_rotated_log_names_the_node_of_the_next_one(tmp_path):
    known = {}
    paths = [write(tmp_path, name, text) for name, text in (("redis.log", EVENT), ("redis.log.1", LINES))]
    older, newer = [ServerLog(path, LogOptions(), known) for path in sorted(paths, key=rotation_order)]

    assert [line.observer for log in (older, newer) for line in log][-2:] == [C, C]


def test_several_nodes_in_a_file_have_their_own_ids_and_addresses(tmp_path):
    """One export of a shipper; the port of each node is that of its own lines."""
    other = LINES.replace("7000", "7001").replace(A, B).replace(C, "d" * 40)
    text = "".join(
        f"[pod/{pod}/redis] {line}\n" for pod, lines in (("r-0", LINES), ("r-1", other)) for line in lines.splitlines()
    )

    log = ServerLog(write(tmp_path, "7009.log", text), LogOptions())

    assert {(line.observer, line.owner.address) for line in log} == {
        (A, "10.0.0.1:7000"), (C, "10.0.0.1:7000"), (B, "10.0.0.1:7001"), ("d" * 40, "10.0.0.1:7001"),
    }  # fmt: skip


def test_two_unnamed_nodes_in_a_file_are_refused_or_named_by_the_user(tmp_path):
    """Their lines would be taken for lines of one."""
    other = LINES.replace(A, B).replace(C, "d" * 40)
    path = write(tmp_path, "x.log", LINES + other)

    with pytest.raises(DecodeError, match="line 9: nodes cccccccc and bbbbbbbb write as one process, 7"):
        list(ServerLog(path, LogOptions()))
    quarantined = ServerLog(path, LogOptions(permissive=True))
    assert [list(quarantined), len(quarantined.bad)] == [[], 1]
    assert {line.observer for line in ServerLog(path, LogOptions(given=(f"{path}={A}",)))} == {A}


@pytest.mark.parametrize("name", ["events.json", "events.json.gz"])
def test_a_log_may_be_one_json_document(tmp_path, name):
    """The answer of filter-log-events, pretty-printed."""
    events = [{"logStreamName": "node-1", "timestamp": 1, "message": line} for line in LINES.splitlines()]

    log = ServerLog(write(tmp_path, name, json.dumps({"events": events}, indent=2)), LogOptions())

    assert len(list(log)) == 6
    assert log.owner.source == "node-1"


def test_a_cut_gzip_file_gives_its_lines(tmp_path):
    """Permissive: rows before the damage, and the damage."""
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress((EVENT * 50_000).encode())[:-9])

    log = ServerLog(str(path), LogOptions(permissive=True))
    lines = list(log)

    assert len(lines) > 1000
    assert "damaged or cut short" in log.bad[0].reason


@pytest.mark.parametrize(
    ("text", "hours"), [("UTC", 0), ("+01:00", 1), ("-0530", -5.5), ("+9", 9), ("Europe/Berlin", 1), ("UTC+2", 2)]
)
def test_zones_are_offsets_or_names(tmp_path, text, hours):
    """21 November: Berlin is one hour ahead."""
    (line,) = ServerLog(write(tmp_path, "x.log", EVENT), LogOptions(zone=text))

    assert line.row.ts_ns == MOMENT_NS - int(hours * 3_600_000_000_000)


@pytest.mark.parametrize("text", ["Nowhere/Atlantis", "+99:00", "../../etc/passwd", "", "\0"])
def test_an_unknown_zone_is_refused(text):
    with pytest.raises(InputError, match="unknown time zone"):
        zone_of(text)


def test_times_without_a_zone_are_utc():
    """The same object, so that cached minutes stay."""
    assert zone_of("utc") is UTC
