"""What a failover lost, as a range that holds (R3, R98, R167)."""

from __future__ import annotations

import pytest

from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.finders.lost_writes import without_pings
from cluster_core.incidents.history import OffsetSeen
from cluster_core.incidents.incident import Loss
from cluster_core.incidents.story import loss_text
from tests.builders.history_builder import A, R, Tale, failover_tale, ns
from tests.core.incidents.test_failovers import ordered


def loss(tale: Tale, *offsets: OffsetSeen) -> Loss:
    """Of the only failover of a tale."""
    tale.offsets += offsets
    (incident,) = [candidate.loss for candidate in find_incidents(tale.history()) if candidate.kind == "failover"]
    return incident


def killed() -> Tale:
    """A's process ends at 9.8 s and is started again at 20 s, with an empty stream."""
    tale = failover_tale()
    tale.headers = [(node, way, header) for node, way, header in tale.headers if node != A or header.ts_ns < ns(10)]
    tale.says(A, 20, offset=0)
    tale.chatter(A, 20.5, 30, replicaof=R, slots="0-99", epoch=4, current=4)
    tale.event(A, 9.8, "process-ended", A)
    tale.event(A, 20, "process-started", A)
    return tale


def test_what_was_heard_is_the_least_and_what_was_not_heard_has_its_time() -> None:
    """Last offset 120, the winner's 100; the process ended 0.3 s after its last header."""
    assert loss(killed()) == Loss(20, 300)


@pytest.mark.parametrize(
    ("behind", "after_s", "lost"), [(14, 0, 0), (28, 10, 0), (28, 5, 28), (15, 0, 15), (14_000, 20, 14_000)]
)
def test_pings_of_replication_are_no_writes(behind: int, after_s: float, lost: int) -> None:
    """P5: a master writes a PING of 14 bytes into its stream every ten seconds, clients or not."""
    assert without_pings(behind, ns(after_s) - ns(0)) == lost


def test_a_master_that_is_never_heard_again_may_have_written_for_an_unknown_time() -> None:
    """It may have lived on where nobody reached it."""
    tale = failover_tale()
    tale.headers = [(node, way, header) for node, way, header in tale.headers if node != A or header.ts_ns < ns(10)]

    assert loss(tale) == Loss(20, None)


def test_nothing_is_known_of_a_master_that_was_not_heard() -> None:
    """No header, no range."""
    tale = failover_tale()
    tale.headers = [header for header in tale.headers if header[0] != A]

    assert loss(tale) == Loss(None, None)
    assert loss_text(Loss()) == "Lost writes: unknown"
    assert loss_text(Loss(0, 4)).startswith("Lost writes: unknown")


def test_a_master_that_stopped_its_writes_lost_none() -> None:
    """R99: the winner waited for its offset."""
    tale = ordered(asked=True, forced=True)
    tale.headers = [
        (node, way, header._replace(offset=98 if node in (A, R) else header.offset))
        for node, way, header in tale.headers
    ]

    assert loss(tale) == Loss(0, 0)


def test_an_offset_that_a_client_port_or_info_showed_narrows_the_range() -> None:
    """Its stream had reached 300 at 9.7 s: 200 more than the winner's, 0.1 s before the end."""
    assert loss(killed(), OffsetSeen(A, ns(9.7), 300)) == Loss(200, 100)


@pytest.mark.parametrize(("offset", "lost"), [(139, 39), (120, 20)])
def test_the_resync_that_a_deposed_master_asks_for_tells_all_that_it_had(offset: int, lost: int) -> None:
    """P6: it asks for the byte behind its own stream, so nothing is left unheard."""
    assert loss(failover_tale(), OffsetSeen(A, ns(20.6), offset, is_last=True)) == Loss(lost, 0)
    assert loss_text(Loss(lost, 0)) == f"{lost} bytes of writes were lost"
