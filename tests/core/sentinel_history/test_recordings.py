"""Recorded sentinels replayed: beliefs as they answered, events as they announced them."""

from __future__ import annotations

import gzip

import pytest

from cluster_core.formats.capture.packet import Packet
from cluster_core.formats.capture.pcap import CaptureReader
from cluster_core.formats.capture.resp_capture import read_resp
from cluster_core.sentinel_history.history import fold_history
from cluster_core.sentinel_history.traffic import SentinelTraffic
from tests.benches.sentinel_accuracy import compare_beliefs, compare_events
from tests.benches.sentinel_recordings import (
    NAMES,
    RECORDINGS,
    announced_in,
    evidence_of,
    history_of,
    without_events,
)

LEAST_PERCENT = 99.0


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("logs", [False, True])
def test_beliefs_are_what_the_sentinels_answered(name: str, logs: bool) -> None:
    """Flags, addresses, epochs and roles of every instance in every answer, from the capture and with logs (S1 to S16)."""
    verdict = compare_beliefs(history_of(name, logs=logs).spans, evidence_of(name).polled)

    assert verdict.samples > 100
    assert verdict.percent >= LEAST_PERCENT, verdict.wrong[:5]
    assert verdict.percent_in_all >= LEAST_PERCENT, verdict.wrong[:5]


@pytest.mark.parametrize("name", NAMES)
def test_more_evidence_is_never_worse(name: str) -> None:
    """Logs beside the capture take nothing away."""
    polled = evidence_of(name).polled

    alone, both = (compare_beliefs(history_of(name, logs=logs).spans, polled) for logs in (False, True))

    assert both.right >= alone.right


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("logs", [False, True])
def test_every_event_of_the_sentinels_channels_is_found(name: str, logs: bool) -> None:
    """Each once, with its whole text."""
    heard = announced_in(name)

    count = compare_events(history_of(name, logs=logs).events, heard)

    assert count.found > 40
    assert count.missing == []


@pytest.mark.parametrize("name", NAMES[:2])
def test_traffic_without_any_event_shows_nearly_all(name: str) -> None:
    """Where nobody listens to their events the rules and what the sentinels send tell: who is down, when and for whom."""
    found = evidence_of(name)

    verdict = compare_beliefs(fold_history(without_events(found.captured), {}).spans, found.polled)

    assert verdict.percent >= 98.0, verdict.wrong[:5]


@pytest.mark.parametrize("name", NAMES)
def test_logs_alone_tell_every_event(name: str) -> None:
    """Events are written to the log before they are announced."""
    found = evidence_of(name)

    count = compare_events(fold_history({}, found.logged).events, announced_in(name))

    assert count.missing == []


@pytest.mark.parametrize("name", NAMES)
def test_logs_alone_show_beliefs_as_far_as_they_go(name: str) -> None:
    """Who is linked and who told what to whom is concluded from the logs of all; run ids are in no log."""
    found = evidence_of(name)

    verdict = compare_beliefs(fold_history({}, found.logged).spans, found.polled)

    assert verdict.percent >= 85.0, verdict.by_field


def test_answers_as_evidence_are_believed() -> None:
    """A sentinel that answers knows best; nothing else is needed."""
    found = evidence_of("redis-7.0")

    verdict = compare_beliefs(fold_history({}, found.polled).spans, found.polled)

    assert verdict.percent_in_all == 100.0


@pytest.mark.long
def test_a_capture_that_begins_in_the_middle_soon_shows_the_same() -> None:
    """Who is connected to whom, who listens to events, which answer belongs to which question: all are found out."""
    found, name = evidence_of("redis-7.0"), "redis-7.0"
    start_ns = min(items[0].ts_ns for items in found.captured.values()) + 3_000_000_000
    reader, traffic = CaptureReader(), SentinelTraffic()
    raw = gzip.decompress((RECORDINGS / name / "resp.pcap.gz").read_bytes())
    for row in read_resp(one for one in reader.feed(raw) if isinstance(one, Packet) and one.ts_ns > start_ns):
        traffic.handle(row)
    later = {
        runid: [one for one in polled if one.ts_ns > start_ns + 3_000_000_000] for runid, polled in found.polled.items()
    }

    verdict = compare_beliefs(fold_history(traffic.evidence(), {}).spans, later)

    assert verdict.samples > 100
    assert verdict.percent >= LEAST_PERCENT, verdict.wrong[:5]
