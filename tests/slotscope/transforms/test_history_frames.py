"""Frames of a replay on their way to tables: small frames in, small frames out."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cluster_core.incidents.incident import Incident
from cluster_core.incidents.story import summary_of
from cluster_core.kinds import IncidentKind, Source
from schemas import history
from schemas.caveats import Code
from slotscope.pipelines.bus.findings import skew_caveats
from slotscope.pipelines.bus.history import LOGGED_EVENTS
from slotscope.pipelines.simulation import FIGURES, PARAMETERS, quantiles
from slotscope.runtime.storage.runs import HELD_ROWS_MAX
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import packed_table
from slotscope.sources.bus.observers import REPLAYED, VIEW, VOTE
from slotscope.transforms import history_frames
from slotscope.transforms.history_frames import beliefs_of, blobs_of, clock_warnings, of_kind, unpacked, with_times
from tests.builders.partial_rows import assert_rows, assert_table, frame

T0_NS = 1_700_000_000_123_456_789
EVENT_COLUMNS = "observer string, ts_ns bigint, kind string, subject string, epoch bigint"


def test_rows_without_spark_have_the_times_of_spark(spark):
    """To the microsecond, rounded down: a double of so many ns would round some of them up.  An unknown time stays null."""
    table = history.VOTES
    times_ns = [1_795_277_182_283_936_943, T0_NS, -1, 0]
    votes = [{"voter": str(ns), "epoch": Decimal(7), "asked_ns": ns} for ns in times_ns]
    rows = frame(spark, table.unlabelled, *votes, {"voter": "", "epoch": Decimal(7)})
    bare = rows.drop(*(name for name in table.columns if f"{name}_ns" in table.columns))

    actual = with_times(bare, table).toArrow()

    assert actual.column_names == table.unlabelled.names
    assert actual.column("asked").cast(pa.int64()).to_pylist() == [*(ns // 1000 for ns in times_ns), None]
    assert with_times(bare.toArrow(), table).to_pylist() == actual.to_pylist()


BLOBS = "row_kind int, blob binary"
LOGGED = "source string, line bigint, observer string, kind string, subject string, epoch decimal(20,0), text string"
OTHER_KIND = captured.BITMAPS


def logs(*lines):
    """A blob with lines of logs, as a task packs them; missing fields are null."""
    rows = [
        {
            "source": "a.log",
            "line": n,
            "ts_ns": T0_NS,
            "ts": datetime.fromtimestamp(T0_NS // 10**9, UTC),
            "text": "",
            **line,
        }
        for n, line in enumerate(lines, 1)
    ]
    return bytearray(packed_table(pa.Table.from_pylist(rows, schema=history.LOG_EVENTS.unlabelled)))


def test_blobs_of_one_kind_become_the_rows_of_their_table(spark):
    """Each blob in full, whatever batch of rows it came in; other kinds are left alone, hostile text is kept as it is."""
    hostile = {"line": 3, "kind": "other", "text": "\x1b[2J<script>\x00\ufffd"}
    vote = {"line": 1, "observer": "a", "kind": "vote", "subject": "b", "epoch": Decimal(2**64 - 1)}
    read = frame(
        spark,
        BLOBS,
        (captured.LOGS, logs(vote, {"line": 2, "kind": "pfail"})),
        (OTHER_KIND, bytearray(b"no rows of this table")),
        (captured.LOGS, logs(hostile)),
    )

    actual = unpacked(read, captured.LOGS, history.LOG_EVENTS)

    assert actual.columns == history.LOG_EVENTS.unlabelled.names
    assert_rows(
        actual, LOGGED,
        ("a.log", 1, "a", "vote", "b", Decimal(2**64 - 1), ""),
        ("a.log", 2, None, "pfail", None, None, ""),
        ("a.log", 3, None, "other", None, None, "\x1b[2J<script>\x00\ufffd"),
    )  # fmt: skip


PACKED = "row_kind int, part string, number bigint, blob binary"


def test_rows_of_one_kind_are_selected_with_their_blobs(spark):
    """From a query as from a table."""
    capture, process = (captured.STATE, "capture", 1, b"\x00\xff"), (captured.META, "10.0.0.1", None, b"{}")
    rows = frame(spark, PACKED, capture, process, (captured.STATE, "b", 2, b""))

    assert_rows(of_kind(rows, captured.STATE), PACKED, capture, (captured.STATE, "b", 2, b""))
    assert_rows(of_kind(rows, OTHER_KIND), PACKED)
    assert_table(of_kind(rows.toArrow(), captured.META), PACKED, process)
    for read in (rows, rows.toArrow()):
        assert blobs_of(of_kind(read, captured.META)) == [("10.0.0.1", b"{}")]
        assert blobs_of(of_kind(read, OTHER_KIND)) == []


def beliefs(number, *rows):
    """A blob of a process with so many rows."""
    packed = pa.Table.from_pylist([{"row_kind": kind, "observer": name} for kind, name in rows], schema=REPLAYED)
    return captured.BELIEFS, "", number, bytearray(packed_table(packed))


@pytest.mark.parametrize(
    ("blobs_max", "rows", "stays_in_spark"), [(2, 2, False), (1, 2, True), (2, HELD_ROWS_MAX, True)]
)
def test_few_beliefs_become_a_table_and_many_stay_in_spark(spark, monkeypatch, blobs_max, rows, stays_in_spark):
    """The bounds are on blobs and on the rows that these announce; rows of other kinds are left out."""
    monkeypatch.setattr(history_frames, "BLOBS_HERE_MAX", blobs_max)
    packed = frame(
        spark, PACKED, beliefs(rows, (VIEW, "a"), (VOTE, "b")), beliefs(1, (VIEW, "c")), (OTHER_KIND, "", 9, b"no rows")
    )
    columns, expected = "row_kind int, observer string", [(VIEW, "a"), (VOTE, "b"), (VIEW, "c")]

    actual = beliefs_of(packed)

    if stays_in_spark:
        assert_rows(actual, columns, *expected)
    else:
        assert_table(actual, columns, *expected)
        assert actual.schema == REPLAYED
    assert beliefs_of(packed.toArrow()).equals(actual.toArrow() if stays_in_spark else actual)


def test_log_lines_are_events_also_without_packets(spark):
    """Of nodes that are known; a subject or an epoch that no line names is empty or 0."""
    read = frame(
        spark, BLOBS,
        (
            captured.LOGS,
            logs(
                {"observer": "a", "kind": "election-won", "subject": "b", "epoch": Decimal(7), "text": "won"},
                {"observer": "a", "kind": "state-fail"},
                {"observer": "b", "kind": "manual-failover-timeout", "text": "<b>"},
                {"observer": "a", "kind": "pfail", "subject": "b"},
                {"observer": "a", "kind": "resync-asked"},
                {"kind": "election-won", "subject": "nobody", "epoch": Decimal(8)},
            ),
        ),
    )  # fmt: skip

    unpacked(read, captured.LOGS, history.LOG_EVENTS).createOrReplaceTempView("log_events")
    actual = spark.sql(LOGGED_EVENTS)

    assert set(actual.columns) == set(history.EVENTS.unlabelled.names)
    assert_rows(
        actual,
        "observer string, ts_ns bigint, kind string, subject string, epoch decimal(20,0), detail string,"
        " source string, message_id bigint, settled_by bigint",
        ("a", T0_NS, "election-won", "b", Decimal(7), "won", "log", None, None),
        ("a", T0_NS, "state-fail", "", Decimal(0), "", "log", None, None),
        ("b", T0_NS, "manual-failover-timeout", "", Decimal(0), "<b>", "log", None, None),
    )


def logged_event(observer, at_s, kind="election-won", epoch=1):
    return (observer, T0_NS + int(at_s * 1e9), kind, "", epoch)


def test_a_log_an_hour_ahead_is_reported_and_an_agreeing_log_is_not(spark):
    events = frame(
        spark, EVENT_COLUMNS, *(logged_event(node, at, epoch=at) for node in ("a", "b") for at in (1, 20, 40))
    )
    logged = frame(
        spark,
        EVENT_COLUMNS,
        *(logged_event("a", at + 3600, epoch=at) for at in (1, 20, 40)),
        *(logged_event("b", at, epoch=at) for at in (1, 20, 40)),
    )

    warnings = clock_warnings(logged, events)

    assert [(warning.severity, warning.code, warning.subject) for warning in warnings] == [
        ("warning", Code.LOG_CLOCK, "a")
    ]
    assert clock_warnings(frame(spark, EVENT_COLUMNS), events) == []


def test_a_promotion_hours_apart_in_logs_and_polls_is_reported():
    at = {"started_ns": T0_NS, "ended_ns": T0_NS, "promoted_min_ns": T0_NS, "promoted_max_ns": T0_NS}
    sources = {"sources": (Source.LOG, Source.POLL), "skew_ns": 18_000_000_000_000}
    incident = Incident(kind=IncidentKind.FAILOVER, variant="automatic", subject="a", winner="b", **at, **sources)

    assert [caveat.code for caveat in skew_caveats([incident])] == [Code.LOG_CLOCK]
    assert "Its times in logs and polls are at least 5 h 0 min apart" in summary_of(incident, {})


def test_figures_of_a_case_are_known_in_the_runs_that_have_them():
    """Three runs of one case, one without an election."""
    figure = FIGURES[0]
    schema = pa.schema([("case", pa.int32()), *PARAMETERS, *((name, pa.int64()) for name in FIGURES)])
    runs = pa.Table.from_pylist([{"case": 0, figure: 10}, {"case": 0, figure: 30}, {"case": 0}, {"case": 1}], schema)

    actual = quantiles(runs).filter(pc.field("figure") == figure)

    columns = ["case", "runs", "known", "mean", "p10", "p50", "worst"]
    assert sorted(tuple(row.values()) for row in actual.select(columns).to_pylist()) == [
        (0, 3, 2, 20.0, 12.0, 20.0, 30.0),
        (1, 1, 0, None, None, None, None),
    ]
    assert len(quantiles(runs.slice(0, 0))) == 0
