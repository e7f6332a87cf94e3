"""Recorded replication replayed: every answer foreseen with its reason, every link as INFO said it was."""

from __future__ import annotations

import pytest

from cluster_core.formats.capture.bus_capture import CapturedGap, ConnectionEvent
from cluster_core.formats.capture.packet import Packet
from cluster_core.formats.capture.resp_capture import CapturedResp, read_resp
from cluster_core.replication.psync import AnswerKind, Reason
from cluster_core.replication.reconstruction import tell_resync
from tests.builders.replication_records import SERVERS, contradictions, packets, replayed, replayed_recording, samples

BACKLOG_BYTES = 16384
FIRST_STEPS = [
    (AnswerKind.FULL, Reason.ID_MISMATCH),  # a new replica, from a file
    (AnswerKind.FULL, Reason.ID_MISMATCH),  # another one, without
    (AnswerKind.PARTIAL, Reason.SAME_ID),  # both come back in time
    (AnswerKind.PARTIAL, Reason.SAME_ID),
    (AnswerKind.PARTIAL, Reason.SAME_ID),
    (AnswerKind.FULL, Reason.BACKLOG_PASSED),  # one of them too late
    (AnswerKind.PARTIAL, Reason.SAME_ID),  # a replica of a replica
    (AnswerKind.PARTIAL, Reason.SECOND_ID),  # whose master is promoted
    (AnswerKind.PARTIAL, Reason.SECOND_ID),  # and which the old master follows
    (AnswerKind.PARTIAL, Reason.FAILOVER),
]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("sizes", [None, {"": BACKLOG_BYTES}])
def test_every_answer_is_foreseen_with_its_reason(server: str, sizes) -> None:
    """P3, P5, P6, P12; whether the backlog's size is given or taken from the answers."""
    resyncs = replayed_recording(server, sizes).resyncs

    assert [(r.answered, r.foreseen.reason) for r in resyncs[: len(FIRST_STEPS)]] == FIRST_STEPS
    assert [r.is_foreseen for r in resyncs] == [True] * len(resyncs)
    assert [r.explained for r in resyncs] == [r.foreseen for r in resyncs]


@pytest.mark.parametrize("server", SERVERS)
def test_what_was_foreseen_only_with_a_guessed_size_is_not_certain(server: str) -> None:
    """The size of a backlog is nowhere in a stream; 16 KiB is the least that a server takes."""
    guessed, given = replayed_recording(server).resyncs, replayed_recording(server, {"": BACKLOG_BYTES}).resyncs

    assert (guessed[5].size_known_by, guessed[5].is_certain) == ("answers", False)
    assert (given[5].size_known_by, given[5].is_certain) == ("option", True)
    assert guessed[2].is_certain  # a few bytes are in any backlog


@pytest.mark.parametrize("server", SERVERS)
def test_links_are_what_info_said_at_every_sample(server: str) -> None:
    """Role, master, link status, replication id, replicas and their states."""
    spans, said = replayed_recording(server).spans, samples(server)

    found = {sample["ts_ns"]: contradictions(spans, sample) for sample in said}

    assert len(said) > 100
    assert {ts_ns: wrong for ts_ns, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("server", SERVERS)
def test_offsets_are_what_info_said_at_every_sample_of_a_connected_replica(server: str) -> None:
    """P9: between what was sent just before the sample and just after it."""
    replay, checked = replayed_recording(server), 0
    for sample in samples(server):
        at_ns = sample["ts_ns"]
        own = [s for s in replay.spans if s.replica == sample["name"] and s.is_up and s.from_ns <= at_ns]
        spans = [s for s in own if s.to_ns is None or s.to_ns > at_ns]
        if sample.get("master_link_status") != "up" or not spans:
            continue
        marks = [mark for mark in replay.marks if mark.link == spans[-1].link]
        before = [mark.sent for mark in marks if mark.ts_ns <= sample["ts_ns"] - 25_000_000]
        after = [mark.sent for mark in marks if mark.ts_ns <= sample["until_ns"] + 25_000_000]

        assert (before or [spans[-1].first_offset])[-1] <= int(sample["slave_repl_offset"])
        assert int(sample["slave_repl_offset"]) <= (after or [spans[-1].first_offset])[-1]
        checked += 1
    assert checked > 50


def test_valkey_fetches_everything_over_two_channels() -> None:
    """Dual channel: the answer, the dump's channel, the stream behind the dump."""
    told = replayed_recording("valkey-9.1").resyncs[-3:]

    assert [r.answered for r in told] == [AnswerKind.DUAL_CHANNEL, AnswerKind.FULL, AnswerKind.PARTIAL]
    assert [r.explained.reason for r in told] == [Reason.ID_MISMATCH, Reason.DUMP_CHANNEL, Reason.MAIN_CHANNEL]
    assert {r.outcome for r in told} == {"done"}
    assert len({r.dump_bytes for r in told}) == 1


@pytest.mark.parametrize("server", SERVERS)
def test_a_resync_is_told_in_one_sentence_with_its_reason(server: str) -> None:
    """The report."""
    sentences = [tell_resync(resync) for resync in replayed_recording(server, {"": BACKLOG_BYTES}).resyncs]

    assert all(sentence.endswith(".") and "because" in sentence and "\n" not in sentence for sentence in sentences)
    assert "bytes behind and the master's backlog (16 KiB, as given) began at byte 20,441" in sentences[5]
    assert "and to take over as master and went on under the new id" in sentences[9]


@pytest.mark.parametrize("server", SERVERS)
def test_a_capture_that_begins_in_the_middle_finds_the_links_and_their_offsets(server: str) -> None:
    """Acknowledgements say where a stream is; nothing that was answered afterwards is missed."""
    whole = replayed_recording(server)
    last = whole.resyncs[5]
    cut = [p for p in packets(server) if isinstance(p, Packet) and p.ts_ns > (last.done_ns or 0) + 100_000_000]

    part = replayed(read_resp(cut))

    assert [r.answer_text for r in part.resyncs] == [r.answer_text for r in whole.resyncs[6:]]
    seen = next(span for span in part.spans if span.cause == "seen in its middle")
    same = next(s for s in whole.spans if s.connection >= 0 and s.state == "online" and s.master == seen.master)
    assert seen.is_up
    assert same.replid is not None
    assert part.marks


@pytest.mark.parametrize("server", SERVERS)
def test_lost_packets_never_raise_and_cost_only_what_they_held(server: str) -> None:
    """Every seventh packet is missing, then all of one direction."""
    every = packets(server)
    holes = replayed(read_resp([packet for number, packet in enumerate(every) if number % 7]))
    port = min(row.origin.target.port for row in read_resp(every) if isinstance(row, ConnectionEvent))
    one_way = [
        p
        for p in every
        if isinstance(p, Packet) and int.from_bytes(p.data[36:38]) != port - 1 and p.data[34:36] != port
    ]

    assert len(holes.resyncs) > 3
    assert any(isinstance(row, CapturedGap) for row in read_resp([p for n, p in enumerate(every) if n % 7]))
    assert replayed(read_resp(one_way)).resyncs


def test_a_dump_is_not_kept() -> None:
    """Of the values and dumps of a capture only the first bytes stay."""
    rows = [row.item for row in read_resp(packets("redis-7.0")) if isinstance(row, CapturedResp)]

    kept = [sum(map(len, getattr(item, "words", ()))) + len(getattr(item, "head", b"")) for item in rows]

    assert max(kept) <= 16 * 1024
