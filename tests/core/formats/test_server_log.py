"""Server logs: every form of a line, every event of the map, hostile bytes, ambiguous times."""

from __future__ import annotations

import gzip
import re
import time
from datetime import UTC, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.formats.server_log import LINE_BYTES_MAX, STARTS, BadLine, LogReader, LogRow, event_of, read_log
from tests.benches.servers import installed, redis_binary, running, valkey_binary, wait_for

A, B, S = "a" * 40, "b" * 40, "c" * 40
MOMENT_NS = 1_795_255_872_345_000_000  # 2026-11-21T10:11:12.345Z


def single_row(line: str | bytes, **options) -> LogRow | BadLine:
    raw = line.encode() if isinstance(line, str) else line
    (row,) = read_log([raw], **options)
    return row


@pytest.mark.parametrize(
    "line",
    [
        "7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: fail",
        "7:M 2026-11-21T10:11:12.345+00:00 # Cluster state changed: fail",
        "7:M 2026-11-21T05:11:12.345-05:00 # Cluster state changed: fail",
        "7:M 1795255872345 # Cluster state changed: fail",
        'pid=7 role=primary timestamp="21 Nov 2026 10:11:12.345" level=warning message="Cluster state changed: fail"',
        'pid=7 role=primary timestamp="2026-11-21T11:11:12.345+01:00" level=warning message="Cluster state changed: fail"',
        'pid=7 role=primary timestamp="1795255872345" level=warning message="Cluster state changed: fail"',
        "2026-11-21T10:11:13.000000001Z 7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: fail",
        "Nov 21 10:11:13 host-1 redis-server[7]: 7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: fail\r",
    ],
)
def test_a_line_has_the_same_event_in_every_form(line):
    """R160: plain and logfmt, local time, ISO 8601 and milliseconds, and what forwarders write before the pid."""
    row = single_row(line)

    assert isinstance(row, LogRow)
    assert (row.ts_ns, row.pid, row.role, row.level) == (MOMENT_NS, 7, "M", "warning")
    assert (row.kind, row.text) == ("state-fail", "Cluster state changed: fail")


@pytest.mark.parametrize(("mark", "level"), [(".", "debug"), ("-", "verbose"), ("*", "notice"), ("#", "warning")])
def test_every_level_has_its_name(mark, level):
    """R160: the level is one character behind the time."""
    assert single_row(f"1:S 21 Nov 2026 10:11:12.345 {mark} x").level == level


@pytest.mark.parametrize(
    ("text", "kind", "subject", "peer", "epoch", "detail"),
    [
        (f"*** NODE {A} possibly failing", "pfail", A, "", None, ""),
        (f"NODE {A} (10.0.0.1:7000) possibly failing.", "pfail", A, "", None, ""),
        (f"Node {B} (n-2) reported node {A} (n-1) as not reachable.", "report-added", A, B, None, ""),
        (f"Node {B} reported node {A} is back online.", "report-removed", A, B, None, ""),
        (f"Marking node {A} (::1:7000) as failing (quorum reached).", "fail-decided", A, "", None, ""),
        (f"FAIL message received from {B} about {A}", "fail-learned", A, B, None, ""),
        (
            f"Clear FAIL state for node {A} (n): is reachable again and nobody is serving its slots after some time.",
            "fail-cleared", A, "", None, "is reachable again and nobody is serving its slots after some time",
        ),
        ("Cluster state changed: ok", "state-ok", "", "", None, ""),
        (
            "Start of election delayed for 713 milliseconds (rank #1, primary rank #2, offset 99).",
            "election-scheduled", "", "", None, "713 milliseconds (rank #1, primary rank #2, offset 99)",
        ),
        ("Starting a failover election for epoch 8.", "election-started", "", "", 8, ""),
        ("Starting a failover election for epoch 8, node config epoch is 3", "election-started", "", "", 8, ""),
        (f"Failover auth granted to {A} for epoch 18446744073709551615", "vote", A, "", 2**64 - 1, ""),
        (f"Failover auth granted to {A} for epoch 18446744073709551616", "vote", A, "", None, ""),
        (f"Failover auth denied to {A}: its master is up", "vote-refused", A, "", None, "its master is up"),
        (
            f"Failover auth denied to {A} (n) for epoch 7: its primary is up",
            "vote-refused", A, "", 7, "its primary is up",
        ),
        (
            f"Failover auth denied to {A}: reqEpoch (6) < curEpoch(9)",
            "vote-refused", A, "", 6, "reqEpoch (6) < curEpoch(9)",
        ),
        (f"Failover auth denied to {A}: already voted for epoch 9", "vote-refused", A, "", 9, "already voted for epoch 9"),
        (
            f"Failover auth denied to {A} (n): slot 5 epoch (4) > reqConfigEpoch (3)",
            "vote-refused", A, "", None, "slot 5 epoch (4) > reqConfigEpoch (3)",
        ),
        ("Failover election won: I'm the new primary.", "election-won", "", "", None, ""),
        ("configEpoch set to 8 after successful failover", "config-epoch", "", "", 8, "failover"),
        (
            "Currently unable to failover: Waiting for votes, but majority still not reached.",
            "election-stalled", "", "", None, "Waiting for votes, but majority still not reached",
        ),
        (f"Manual failover requested by slave {A}.", "manual-failover-mfstart", A, "", None, ""),
        (
            "Received replication offset for paused master manual failover: 4711",
            "manual-failover-paused", "", "", None, "4711",
        ),
        (
            f"Configuration change detected. Reconfiguring myself as a replica of node {A} (n) in shard {S}",
            "became-replica", A, "", None, "",
        ),
        (f"I'm a sub-replica! Reconfiguring myself as a replica of grandmaster {A}", "became-replica", A, "", None, ""),
        (f"Node {B} has old slots configuration, sending an UPDATE message about {A}", "update-sent", A, B, None, ""),
        (
            f"Slot range [5, 9] is migrated from node {B} (n) in shard {S} to node {A} (m) in shard {S}.",
            "slots-moved", A, B, None, "5, 9",
        ),
        (f"Assigning slot 77 to node {A} (n) in shard {S}", "slot-assigned", A, "", None, "77"),
        (f"No cluster configuration found, I'm {A}", "identity", A, "", None, ""),
        (f"Node hard reset, now I'm {A}", "identity", A, "", None, ""),
        ("IP address for this node updated to 10.0.0.1", "own-address", "", "", None, "10.0.0.1"),
        (f"Address updated for node {A} (), now 10.0.0.1:7000", "address-updated", A, "", None, "10.0.0.1:7000"),
        ("Running mode=cluster, port=7000.", "listening", "", "", None, "cluster, port=7000"),
        ("Ready to accept connections tcp", "ready", "", "", None, ""),
        ("Connecting to PRIMARY 10.0.0.1:7000", "master-connecting", "", "", None, "10.0.0.1:7000"),
        ("Replica 10.0.0.1:7003 asks for synchronization", "sync-asked", "", "", None, "10.0.0.1:7003"),
        (
            "Valkey version=8.1.8, bits=64, commit=00000000, modified=0, pid=7, just started",
            "started", "", "", None, "Valkey 8.1.8",
        ),
        (f"A failover occurred in shard {S}; node {A} () lost 5462 slot(s) and failed over to node {B} () with a config epoch of 8",
            "failover-seen", B, A, 8, "5462"),
        (f"A failover occurred in shard {S}; node {A} (n) lost 12 slot(s) to node {B} (m) with a config epoch of 8",
            "failover-seen", B, A, 8, "12"),
        (f"A failover occurred in shard {S}; node {A} () failed over to node {B} () with a config epoch of 8",
            "failover-seen", B, A, 8, ""),
        ("Received SIGTERM scheduling shutdown...", "stopping", "", "", None, ""),
        ("Redis 7.0.15 crashed by signal: 11, si_code: 1", "crashed", "", "", None, "11"),
        ("Connection with master lost.", "master-link-lost", "", "", None, ""),
        (f"Full resync from primary: {A}:4711", "full-resync", "", "", None, f"{A}:4711"),
        ("MASTER <-> REPLICA sync: Flushing old data", "data-flushed", "", "", None, ""),
        ("RDB signature and version check passed. Flushing old data", "data-flushed", "", "", None, ""),
        ("Done loading RDB, keys loaded: 0, keys expired: 0.", "data-loaded", "", "", None, "0"),
    ],
)  # fmt: skip
def test_a_text_of_either_server_is_an_event(text, kind, subject, peer, epoch, detail):
    """R160: the event map, wording of Redis 5 to 8 and Valkey 8 to 9."""
    assert event_of(text) == (kind, subject, peer, epoch, detail)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Server initialized",
        f"Node {A[:39]} reported node {B} as not reachable.",
        f"Client closed connection id=1 name=Failover auth granted to {A} for epoch 1",
        f"x Failover auth granted to {A} for epoch 1",
        f"Failover auth granted to {A.upper()} for epoch 1",
    ],
)
def test_a_text_that_only_contains_an_events_text_is_no_event(text):
    """Clients choose what some lines hold: an event is known by how the text begins."""
    assert event_of(text) is None


def test_other_output_of_servers_is_recognised():
    """Banner, signal handler, bug report: skipped, counted, not bad."""
    noise = (
        b"\n                _._                                                  \n"
        b"      _.-``    `.  `_.  ''-._           Redis 7.0.15 (00000000/0) 64 bit\n"
        b" (    '      ,       .-`  | `,    )     Running in cluster mode\n"
        b" |    `-._   `._    /     _.-'    |     PID: 7\n"
        b"           `-.__.-'              https://redis.io       \n"
        b"7:signal-handler (1795254729) Received SIGTERM scheduling shutdown...\n"
        b"=== REDIS BUG REPORT START: Cut & paste starting from here ===\n"
        b"anything at all\n"
        b"=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n"
    )
    reader = LogReader()

    assert reader.feed(noise) == []
    assert reader.skipped == 10


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff\xfe\x00garbage", "not a line of a server log"),
        (b"7:M 31 Feb 2026 10:11:12.345 # x", "an impossible time"),
        (b"7:M 21 Nob 2026 10:11:12.345 # x", "an impossible time"),
        (b"7:M 21 Nov 2026 25:11:12.345 # x", "an impossible time"),
        (b"7:M 2026-13-21T10:11:12.345Z # x", "an impossible time"),
        (b"1 Nov 2026 10:11:12.345 # the beginning was cut off", "not a line of a server log"),
    ],
)
def test_an_invalid_line_is_reported_with_its_place(raw, reason):
    """Bad input: line, offset and reason, and reading goes on behind it."""
    good = b"7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: ok\n"

    first, bad, last = read_log([good + raw + b"\n" + good])

    assert isinstance(bad, BadLine)
    assert bad.reason.startswith(reason)
    assert (bad.line, bad.offset) == (2, len(good))
    assert (first.line, last.line, last.offset) == (1, 3, len(good) + len(raw) + 1)


def test_an_endless_line_is_bad_and_takes_no_memory():
    """Every buffer has a bound: `LINE_BYTES_MAX`."""
    reader = LogReader()
    for _ in range(5):
        assert reader.feed(b"x" * LINE_BYTES_MAX) == []

    (bad, row) = reader.feed(b"\n7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: ok\n")

    assert bad.skipped_bytes == 5 * LINE_BYTES_MAX
    assert (row.line, row.offset) == (2, 5 * LINE_BYTES_MAX + 1)


def test_non_text_bytes_are_escaped():
    row = single_row(b"7:M 21 Nov 2026 10:11:12.345 * \xff\xfe\x00 name")

    assert row.text == "\\xff\\xfe\x00 name"


@given(st.lists(st.binary(max_size=80), max_size=20), st.integers(1, 50))
def test_no_bytes_raise_and_pieces_do_not_matter(parts, step):
    good = b"7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: ok"
    data = b"\n".join([good, *parts, good])
    pieces = [data[at : at + step] for at in range(0, len(data), step)]

    assert list(read_log(pieces)) == list(read_log([data]))


RECORDED = sorted((Path(__file__).parents[2] / "data").glob("bus-*/logs/*.log.gz"))
WRAPPERS = {
    "plain": "{}",
    "kubectl": "[pod/r-0/redis] 2026-11-21T10:11:13.000000001Z {}",
    "CRI": "2026-11-21T10:11:13.000000001Z stdout F {}",
    "docker": '{{"log":"{}\\n","stream":"stdout","time":"2026-11-21T10:11:13.000000001Z"}}',
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Europe/Berlin")], ids=str)
def test_a_reader_of_events_finds_the_events_of_a_reader_of_all_lines(wrapper, zone):
    """Most lines of a log are passed over many at a time, wherever the pieces are cut."""
    assert len(RECORDED) >= 6
    for path in RECORDED[:6]:
        text = gzip.decompress(path.read_bytes()).decode().replace('"', "'").replace("\\", "/")
        data = "\n".join(WRAPPERS[wrapper].format(line) for line in text.splitlines()).encode() + b"\n"
        every, some = LogReader(zone=zone), LogReader(zone=zone, events_only=True)
        cut = len(data) // 3 + 7

        rows = [row for row in every.feed(data) + every.finish() if isinstance(row, LogRow)]
        events = [row for piece in (data[:cut], data[cut:]) for row in some.feed(piece)] + some.finish()

        assert events == [row for row in rows if row.kind]
        assert some.passed + len(events) == len(rows)


@pytest.mark.parametrize(
    "text", ["Connection with Node abc at 10.0.0.1:7000 failed", "Accepting cluster node connection"]
)
def test_frequent_lines_without_an_event_are_skipped_in_bulk(text):
    assert not text.startswith(STARTS)


def test_a_reader_of_events_still_finds_bad_lines():
    line = b"7:M 21 Nov 2026 10:11:12.345 * DB saved on disk\n"
    reader = LogReader(events_only=True)

    (bad,) = reader.feed(3 * line + b"\xff\xfe\n" + 2 * line)

    assert (bad.line, bad.offset, bad.is_foreign) == (4, 3 * len(line), False)
    assert reader.passed == 5


def test_local_times_are_those_of_the_given_zone():
    """A server writes local time and does not say which."""
    line = "7:M 21 Nov 2026 10:11:12.345 * x"

    assert single_row(line, zone=timezone(timedelta(hours=-5))).ts_ns == MOMENT_NS + 5 * 3_600_000_000_000
    assert single_row(line, zone=ZoneInfo("Asia/Kolkata")).ts_ns == MOMENT_NS - 19_800_000_000_000


def test_the_repeated_hour_stays_in_order():
    """Berlin, 25 October 2026: 02:59 is followed by 02:00, one minute later."""
    lines = [
        f"7:M 25 Oct 2026 0{hour}:{minute:02}:00.000 * x" for hour, minute in ((2, 0), (2, 59), (2, 0), (2, 59), (3, 0))
    ]

    times = [
        row.ts_ns // 60_000_000_000 for row in read_log([("\n".join(lines)).encode()], zone=ZoneInfo("Europe/Berlin"))
    ]

    assert [later - times[0] for later in times] == [0, 59, 60, 119, 120]


def test_a_clock_set_back_a_little_is_not_a_change_of_zone():
    """Steps of less than a minute are believed, also in that hour."""
    lines = b"7:M 25 Oct 2026 02:30:30.000 * x\n7:M 25 Oct 2026 02:30:20.000 * x\n"

    first, second = read_log([lines], zone=ZoneInfo("Europe/Berlin"))

    assert second.ts_ns - first.ts_ns == -10_000_000_000


def test_a_resync_request_names_the_next_byte():
    """That tells how far a master had come that was deposed."""
    event = event_of(f"Trying a partial resynchronization (request {'a' * 40}:525).")

    assert event is not None
    assert (event.kind, event.detail) == ("resync-asked", "525")


FORMS = [("legacy", "iso8601"), ("logfmt", "milliseconds"), ("logfmt", "legacy")]


@pytest.mark.servers
@pytest.mark.parametrize(("form", "stamp"), FORMS)
def test_a_real_valkey_is_understood(form, stamp):
    """Valkey 8.1+: log-format and log-timestamp-format."""
    before_ns = time.time_ns()

    rows = log_of(installed(valkey_binary()), log_format=form, log_timestamp_format=stamp)

    assert_understood(rows, before_ns)


@pytest.mark.servers
def test_a_real_redis_is_understood():
    before_ns = time.time_ns()

    assert_understood(log_of(installed(redis_binary())), before_ns)


def log_of(binary: str, **settings) -> list[LogRow | BadLine]:
    """Rows of the log of a cluster node that got all slots and was reset."""
    with running(binary, cluster=True, loglevel="debug", **settings) as server:
        server.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: b"cluster_state:ok" in server.call("CLUSTER", "INFO"), "the cluster to be ok")
        server.call("CLUSTER", "BUMPEPOCH")
        server.call("CLUSTER", "RESET", "HARD")
        log = Path(server.directory, "server.log").read_bytes()
    return list(read_log([log], zone=local_zone()))


def local_zone():
    offset = time.localtime().tm_gmtoff
    return timezone(timedelta(seconds=offset)) if offset else UTC


def assert_understood(rows: list[LogRow | BadLine], before_ns: int) -> None:
    kinds = [row.kind for row in rows if isinstance(row, LogRow)]

    assert [row for row in rows if isinstance(row, BadLine)] == []
    assert {"started", "identity", "listening", "state-ok", "state-fail"} <= set(kinds)
    assert kinds.count("identity") == 2
    assert all(before_ns - 1_000_000_000 <= row.ts_ns <= time.time_ns() for row in rows)
    assert all(re.fullmatch("[MSC]", row.role) and row.level for row in rows)
