"""Slots that stay open (CLUSTER SETSLOT MIGRATING, IMPORTING), as polls and logs show them."""

from __future__ import annotations

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.history.open_slots import OpenMark, OpenSlot, open_slots
from cluster_core.history.statements import Lines
from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.story import step_text, summary_of
from cluster_core.kinds import Source
from tests.builders.history_builder import NODES, A, B, R, ns, quiet_tale
from tests.core.history.test_service import NEW, OLD, OTHER, line

ANSWERED = {B: [ns(at_s) for at_s in range(31)]}
SAMPLES = {(B, Source.POLL): [MetricSample(ts_ns, ts_ns, B) for ts_ns in ANSWERED[B]]}


def marks(slot: int, *seconds: int) -> list[OpenMark]:
    """Answers of B that show that it imports *slot* from A."""
    return [OpenMark(B, ns(at_s), slot, A, B) for at_s in seconds]


def test_a_slot_is_open_until_an_answer_no_longer_shows_it() -> None:
    opened = open_slots(marks(7, 3, 4, 20), ANSWERED, Lines(()))

    assert opened == [OpenSlot(7, A, B, B, ns(3), ns(5)), OpenSlot(7, A, B, B, ns(20), ns(21))]


def test_logs_of_masters_show_when_a_slot_was_opened_and_closed() -> None:
    """Replicas log the same lines."""
    lines = Lines(
        [
            line(NEW, 1, "slot-importing", subject=OLD, detail="7", role="M"),
            line(OTHER, 1, "slot-importing", subject=OLD, detail="7", role="S"),
            line(NEW, 2, "slot-importing", subject=OLD, detail="8", role="M"),
            line(NEW, 3, "slot-assigned", subject=NEW, detail="7", role="M"),
        ]
    )

    opened = [(mark.slot, mark.source, mark.target, mark.to_ns) for mark in open_slots([], {}, lines)]

    assert opened == [(7, OLD, NEW, 3_000_000_000), (8, OLD, NEW, None)]


def test_a_slot_left_open_by_a_crash_is_an_incident() -> None:
    tale = quiet_tale()
    tale.rows = [row for row in tale.rows if (row.observer, getattr(row, "node_id", "")) not in ((R, A), (B, A))]
    for observer in (B, R):
        tale.view(observer, A, 0, 12)
        tale.view(observer, A, 12, 14, flags="master,fail", cause="R54")
        tale.view(observer, A, 14)
    history = tale.history(open_marks=marks(50, *range(11, 31)), samples=SAMPLES)
    names = {node: node[:1] for node in NODES}

    incident = next(incident for incident in find_incidents(history) if incident.kind == "resharding")

    assert (incident.variant, incident.subject, incident.winner) == ("slot open", A, B)
    assert (incident.slots, incident.ended_ns) == ("50", None)
    assert summary_of(incident, names) == "1 slot (50) stayed open until the evidence ends while moving from a to b"
    assert "CLUSTER SETSLOT 50 STABLE" in step_text(incident.steps[0], names)


def test_a_migrating_slot_is_no_incident() -> None:
    """Its keys are being moved: no node failed, and it was closed."""
    history = quiet_tale().history(open_marks=marks(50, *range(5, 25)), samples=SAMPLES)

    assert find_incidents(history) == []
