"""A whole node beside recorded ones: what it would send agrees with what they sent."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from random import Random

import pytest

from cluster_core.formats.capture.bus_capture import read_bus
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1
from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, MessageSeen
from cluster_core.wire.bus import Message, MessageType
from tests.builders.gossip_builder import ME, PORTS, A, ping
from tests.reference.sightings import read_sightings
from tests.wire_differential.attribution import Attribution, sort_out
from tests.wire_differential.differential import Differential
from tests.wire_differential.wire_score import WireScore

DATA = Path(__file__).parents[2] / "data"
S = 1_000_000_000
T0 = 1_700_000_000 * S
HOME = Endpoint("127.0.0.1", 17000)
PERCENT = 99.0
NODE_TIMEOUT_MS = 1000


@cache
def recorded(server: str) -> WireScore:
    """The score of all nodes of a bundled recording (tests/data/README.md)."""
    raw = gzip.decompress((DATA / f"bus-{server}" / "bus.pcap.gz").read_bytes())
    sightings = list(read_sightings(row for _, row in read_bus([("bus.pcap", [raw])])))
    attribution = Attribution()
    for sighting in sightings:
        attribution.learn(sighting)
    whole = WireScore()
    for process, evidence in sort_out(sightings, attribution).items():
        whole.add(score_of(process, evidence, NODE_TIMEOUT_MS))
    return whole


def score_of(process: Endpoint, evidence: list[Evidence], node_timeout_ms: int) -> WireScore:
    """One process's score."""
    differential = Differential(process, Random(0), node_timeout_ms=node_timeout_ms)
    for item in evidence:
        differential.feed(item)
    return differential.finish()


@pytest.mark.long
@pytest.mark.parametrize("server", ["redis-7.0", "valkey-9.1"])
def test_what_a_node_would_send_agrees_with_what_recorded_nodes_sent(server: str) -> None:
    """Types, targets, epochs, flags, slots; a failover and a restart are in it (R33, R41, R54, R77, R89, R90)."""
    score = recorded(server)

    assert score.percent >= PERCENT, score.first[:20]
    assert sum(score.agreed.values()) > 500


@pytest.mark.long
@pytest.mark.parametrize("server", ["redis-7.0", "valkey-9.1"])
@pytest.mark.parametrize("kind", ["fail", "auth-req", "auth-ack"])
def test_the_messages_of_a_failover_are_sent_unasked(server: str, kind: str) -> None:
    """R54, R89, R90: nobody tells our node that it should send them."""
    score = recorded(server)

    assert score.agreed[kind] > 0
    assert not [name for name, _ in score.told if name == kind]


@pytest.mark.parametrize("server", ["redis-7.0", "valkey-9.1"])
def test_little_is_told(server: str) -> None:
    """Orders of an operator are the only thing that is not sent by itself."""
    score = recorded(server)

    assert sum(score.told.values()) < sum(score.agreed.values()) / 20


class Tape:
    """What ME sent and received on A's link to it."""

    def __init__(self) -> None:
        peer = Endpoint("127.0.0.1", 50000)
        self.evidence: list[Evidence] = [LinkSeen(T0, 0, 1, False, "opened", True, peer)]
        self.peer = peer

    def add(self, at_s: float, message: Message, *, sent: bool) -> None:
        """One message at a time in seconds."""
        ref = len(self.evidence)
        self.evidence.append(MessageSeen(T0 + round(at_s * S), ref, 1, False, sent, self.peer, message))

    def talk(self, at_s: float, **mine: object) -> None:
        """A pings and ME answers."""
        self.add(at_s, ping(A), sent=False)
        self.add(at_s + 0.001, ping(ME, kind=MessageType.PONG, state=1, **mine), sent=True)  # type: ignore[arg-type]

    def score(self) -> WireScore:
        """Run it."""
        return score_of(HOME, self.evidence, 2000)


def test_answers_to_a_stranger_agree() -> None:
    """R41: every PING is answered."""
    tape = Tape()
    for at_s in range(1, 6):
        tape.talk(at_s)

    score = tape.score()

    assert score.percent == 100.0
    assert score.agreed["pong"] == 5


def test_an_answer_that_ours_would_not_give_is_a_difference() -> None:
    """R41: one PING, two PONGs."""
    tape = Tape()
    tape.talk(1)
    tape.add(1.1, ping(ME, kind=MessageType.PONG, state=1), sent=True)
    tape.talk(3)

    assert tape.score().differed == {("pong", "missing"): 1}


def test_an_answer_that_only_ours_would_give_is_a_difference() -> None:
    """R41: three PINGs without an answer."""
    tape = Tape()
    tape.talk(1)
    for at_s in (2, 2.1, 2.2):
        tape.add(at_s, ping(A), sent=False)
    for at_s in (5, 7, 9):
        tape.talk(at_s)

    assert tape.score().differed == {("pong", "extra"): 3}


def test_an_epoch_out_of_the_blue_is_a_difference_once() -> None:
    """R22: nothing that was received brings it about; it is compared before it is believed."""
    tape = Tape()
    tape.talk(1)
    tape.talk(2, current_epoch=7)
    tape.talk(3, current_epoch=7)

    score = tape.score()

    assert score.differed == {("pong", "current_epoch"): 1}
    assert score.agreed["pong"] == 2


def test_slots_by_order_are_told_and_not_agreed() -> None:
    """CLUSTER ADDSLOTS is in no message."""
    tape = Tape()
    tape.talk(1)
    tape.talk(2, slots="0-99")
    tape.talk(3, slots="0-99")

    score = tape.score()

    assert score.told == {("pong", "ADDSLOTS"): 1}
    assert (score.agreed["pong"], score.percent) == (2, 100.0)
    assert score.strict_percent < score.percent


def test_the_profile_is_read_from_the_first_header() -> None:
    """R6, R20."""
    tape = Tape()
    tape.talk(1)
    differential = Differential(HOME, Random(0), node_timeout_ms=2000)
    for item in tape.evidence:
        differential.feed(item)
    differential.finish()

    assert differential.node is not None
    assert differential.node.view.profile is REDIS_7_0 is not VALKEY_9_1
    assert PORTS[ME] == differential.node.view.myself.port
