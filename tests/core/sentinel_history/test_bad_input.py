"""Hostile evidence: nothing crashes, hangs or grows without bound, whatever peers and files say."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from random import Random

import pytest

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.packet import Packet
from cluster_core.formats.capture.pcap import CaptureReader
from cluster_core.formats.capture.resp_capture import CapturedResp, read_resp
from cluster_core.sentinel_history.announcements import read_announcement, read_switch, told_by_log
from cluster_core.sentinel_history.evidence import Answered, Asked, Heard, Listened, Sent, Told
from cluster_core.sentinel_history.history import fold_history
from cluster_core.sentinel_history.incidents import find_sentinel_incidents, step_text, summary_of
from cluster_core.sentinel_history.traffic import SentinelTraffic, read_poll_line
from tests.benches.sentinel_recordings import MASTER, ME, MS_NS, PEER, RECORDINGS, fold, hello, info, watched

SEED = 20261121
MUTATIONS = 10_000
FIRST_PACKETS = 150


def small_packets() -> list[Packet]:
    """The beginning of a recording: links, INFO, SUBSCRIBE, the first hello messages."""
    reader = CaptureReader()
    raw = gzip.decompress((RECORDINGS / "valkey-9.1" / "resp.pcap.gz").read_bytes())
    return [packet for packet in reader.feed(raw) if isinstance(packet, Packet)][:FIRST_PACKETS]


def replay(packets: list[Packet]) -> int:
    """Read, fold and judge; return how many pieces of evidence there were."""
    traffic = SentinelTraffic()
    for row in read_resp(packets):
        traffic.handle(row)
    evidence = traffic.evidence()
    find_sentinel_incidents(fold_history(evidence, {}))
    return sum(map(len, evidence.values()))


def mutated(data: bytes, rng: Random) -> bytes:
    """A byte changed, dropped or doubled, or the rest cut off."""
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    return (data[:at] + data[at + 1 :], data[:at] + data[at : at + 9] * 2 + data[at:], data[:at])[kind - 1]


@pytest.mark.long
def test_every_prefix_of_a_capture_is_replayed() -> None:
    """A capture may end anywhere."""
    packets = small_packets()

    found = [replay(packets[:count]) for count in range(len(packets))]

    assert found[0] == 0 < found[-1] == max(found)


def mutate_packets(count: int) -> list[int]:
    """Replay *count* damaged captures; return what was found in each."""
    packets, rng = small_packets(), Random(SEED)
    found = []
    for _ in range(count):
        at = rng.randrange(len(packets))
        packet = packets[at]
        bad = packet.data[:54] + mutated(packet.data[54:], rng)
        found.append(replay([*packets[:at], replace(packet, data=bad), *packets[at + 1 : at + 40]]))
    return found


@pytest.mark.long
def test_mutated_packets_are_replayed() -> None:
    """Wrong lengths, broken arrays, other texts; all of them in the slow run."""
    found = mutate_packets(400)

    assert 0 < sum(count > 0 for count in found) <= len(found) == 400


@pytest.mark.slow
def test_ten_thousand_mutated_packets_are_replayed() -> None:
    """The same, as often as promised."""
    found = mutate_packets(MUTATIONS)

    assert 0 < sum(count > 0 for count in found) <= len(found) == MUTATIONS


@pytest.mark.long
def test_mutated_words_of_peers_change_beliefs_at_most() -> None:
    """10,000 texts of hello messages, INFO, answers and events, in histories of a hundred each."""
    rng = Random(SEED)
    request = (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", b"3", ME.encode())
    order = (b"SENTINEL", b"MONITOR", b"x", b"10.0.0.7", b"6379", b"2")
    texts = [
        hello("b" * 40, ip=PEER.ip, epoch=3, config_epoch=2).encode(),
        info(more="master_host:x\r\nslave9:ip=,port=x"),
    ]
    channels = [
        "+new-epoch",
        "+vote-for-leader",
        "voted",
        "+switch-master",
        "+tilt",
        "-tilt",
        "+monitor",
        "-monitor",
        "+slave",
        "+sentinel",
        "+sentinel-invalid-addr",
        "+sentinel-address-switch",
        "+sdown",
        "-sdown",
        "+odown",
        "-odown",
        "+try-failover",
        "+elected-leader",
        "+failover-state-select-slave",
        "+selected-slave",
        "+failover-state-send-slaveof-noone",
        "+failover-state-wait-promotion",
        "+promoted-slave",
        "+failover-state-reconf-slaves",
        "+slave-reconf-sent",
        "+slave-reconf-sent-be",
        "+slave-reconf-inprog",
        "+slave-reconf-done",
        "-slave-reconf-sent-timeout",
        "+failover-end",
        "-failover-abort-not-elected",
        "-failover-abort-no-good-slave",
        "-failover-abort-slave-timeout",
        "-failover-abort-master-timeout",
        "+role-change",
        "-role-change",
        "+reset-master",
        "+set",
    ]
    events = [
        b"master mymaster 10.0.0.1 6379 #quorum 2/2", b"slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379",
        b"mymaster 10.0.0.1 6379 10.0.0.2 6379", b"%s 3" % ME.encode(), b"sentinel %s 10.0.0.12 26379 @ mymaster 10.0.0.1 1" % (b"b" * 40),
    ]  # fmt: skip
    incidents = 0
    for _ in range(MUTATIONS // 100):
        items = watched(2000)
        items.append(Listened(0, 99, ("*",), on=rng.random() < 0.5))
        for number in range(100):
            ns = (2000 + number * 40) * MS_NS
            match rng.randrange(5):
                case 0:
                    items.append(Heard(ns, mutated(texts[0], rng).decode("utf-8", "replace")))
                case 1:
                    items.append(Answered(ns, 1, MASTER, (b"INFO",), "bulk", (mutated(texts[1], rng),)))
                case 2:
                    words = tuple(mutated(word, rng) for word in (b"1", ME.encode(), b"3"))
                    items.append(Answered(ns, 5, PEER, request, "array", words[: rng.randrange(4)]))
                case 3:
                    asked = tuple(mutated(word, rng) for word in rng.choice((request, order)))
                    items.append(Asked(ns, asked, rng.choice(("simple", "array", "number")), (b"OK",)))
                    items.append(Sent(ns, 5, PEER, asked))
                case _:
                    text = mutated(rng.choice(events), rng).decode("utf-8", "replace")
                    items.append(Told(ns, rng.choice(channels), text))
        history = fold(items)
        for one in find_sentinel_incidents(history):
            incidents += 1
            assert summary_of(one, {})
            assert all(step_text(step, {}) for step in one.steps)
    assert incidents > 0


def test_lines_of_logs_and_polls_survive_mutation() -> None:
    """A line is read, or refused with its number."""
    rng = Random(SEED)
    line = json.dumps(
        {
            "t": 1795254894896657338, "port": 24010, "kind": "sentinel", "masters": [["name", "m", "ip", "1.1.1.1", "port", "1"]],
            "replicas": [{"name": "1.1.1.2:1"}], "sentinels": [["name", "b" * 40]],
        }
    ).encode()  # fmt: skip
    refused = []
    for _ in range(MUTATIONS):
        try:
            read_poll_line(mutated(line, rng), line=7, source="polls")
        except DecodeError as error:
            refused.append(str(error))
        text = mutated(b"+slave slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379", rng).decode(
            "utf-8", "replace"
        )
        told_by_log(1, text)
        read_announcement(text)
        read_switch(text)
    assert 0 < len(refused) < MUTATIONS
    assert all("polls: offset 7" in reason for reason in refused)


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"1", b"{" * 100_000, b'{"masters": 1, "t": 1, "port": 1}', b'{"masters": [], "t": "x", "port": 1}',
     b'{"masters": [["name"]], "t": 1, "port": 1}', b'{"masters": [], "t": 1}', b'{"masters": [], "t": 1e999, "port": 1}'],
)  # fmt: skip
def test_a_line_that_is_no_poll_is_refused(raw: bytes) -> None:
    """With its line as the offset."""
    with pytest.raises(DecodeError) as refused:
        read_poll_line(raw, line=3, source="polls")

    assert (refused.value.source, refused.value.offset) == ("polls", 3)


def test_numbers_that_lie_do_no_harm() -> None:
    """Ports, epochs and quorums beyond every bound."""
    huge = "9" * 300
    items = [
        *watched(2000),
        Heard(2100 * MS_NS, f"10.0.0.5,{huge},{'c' * 40},{huge},mymaster,10.0.0.1,{huge},{huge}"),
        Told(2200 * MS_NS, "+new-epoch", huge),
        Told(2300 * MS_NS, "+monitor", f"master other 10.0.0.1 {huge} quorum {huge}"),
        Answered(2400 * MS_NS, 1, MASTER, (b"INFO",), "bulk", (f"run_id:{'1' * 40}\r\nrole:slave\r\nmaster_port:{huge}".encode(),)),
    ]  # fmt: skip

    history = fold(items)

    assert history.spans


@pytest.mark.long
def test_masters_without_end_are_given_up() -> None:
    """A fake that watches ten thousand masters is kept at a thousand."""
    items = [Told(at * MS_NS, "+monitor", f"master m{at} 10.0.0.1 {at} quorum 2") for at in range(1, 1200)]

    history = fold([Listened(0, 99, ("*",), on=True), *items])

    assert sum(span.to_ns is None for span in history.spans) <= 1000


def test_times_that_jump_by_years_do_not_hang() -> None:
    """The timer is not run through them."""
    year_ns = 31_536_000_000_000_000
    items = [
        *watched(2000),
        Told(30 * year_ns, "+sdown", "master mymaster 10.0.0.1 6379"),
        Heard(60 * year_ns, hello("b" * 40)),
    ]

    assert fold(items).last_ns >= 60 * year_ns


def test_two_masters_that_claim_one_replica_both_have_it() -> None:
    """Each sentinel believes what each master's INFO says; the replica has a record with both."""
    claim = info(runid="3" * 40, replicas=[MASTER._replace(ip="10.0.0.2")])
    monitor = Told(2000 * MS_NS, "+monitor", "master other 10.0.0.9 6379 quorum 2")
    target = MASTER._replace(ip="10.0.0.9")
    from tests.benches.sentinel_recordings import answered_info, link

    history = fold([Listened(0, 99, ("*",), on=True), *watched(2000), monitor, *link(2050, 7, target), answered_info(2100, 7, target, claim)])  # fmt: skip

    claimed = {
        span.belief.master for span in history.spans if span.belief.name == "10.0.0.2:6379" and span.to_ns is None
    }
    assert claimed == {"mymaster", "other"}


def test_evidence_beyond_the_bound_is_counted() -> None:
    """What is not kept is said."""
    traffic = SentinelTraffic(kept_max=10)
    for row in read_resp(small_packets()):
        traffic.handle(row)

    assert traffic.dropped > 0
    assert sum(len(items) for items in traffic.evidence().values()) <= 10


def test_strange_values_are_passed_over() -> None:
    """Inline commands, pushes of RESP3, arrays within arrays: what a client of the same port may send."""
    traffic = SentinelTraffic()
    for row in read_resp(small_packets()):
        if isinstance(row, CapturedResp):
            traffic.handle(row)

    assert traffic.evidence()
