"""Promotions from polls, logs and metrics, and from all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from cluster_core.gossip.causes import Cause
from cluster_core.history.promotions import Sighting, merge_sightings, seen_in_logs, seen_in_views
from cluster_core.history.statements import Lines, LoggedLine
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import NodeViewRow

S = 1_000_000_000
OLD, NEW, OTHER, THIRD = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
PORTS = {OLD: 7000, NEW: 7001, OTHER: 7002, THIRD: 7003}


def row(
    observer: str, node: str, from_s: float, to_s: float | None, flags: str, *, master: str = "", epoch: int = 1,
    slots: str = "", min_s: float | None = None,
) -> NodeViewRow:  # fmt: skip
    """A belief that polls show."""
    return NodeViewRow(
        observer, node, "10.0.0.1", PORTS[node], 0, "", flags, master, epoch, slots, True, round(from_s * S),
        None if to_s is None else round(to_s * S), Cause.POLL, -1, None if min_s is None else round(min_s * S), Source.POLL,
    )  # fmt: skip


def polled(observer: str, *, by_s: float, after_s: float, epoch: int = 6) -> dict[tuple[str, str], list[NodeViewRow]]:
    """NEW takes the place of OLD, as *observer* answered."""
    return {
        (observer, OLD): [
            row(observer, OLD, 0, by_s, "master", slots="0-99"),
            row(observer, OLD, by_s, None, "master,fail"),
        ],
        (observer, NEW): [
            row(observer, NEW, 0, by_s, "slave", master=OLD),
            row(observer, NEW, by_s, None, "master", epoch=epoch, slots="0-99", min_s=after_s),
        ],
        (observer, OTHER): [row(observer, OTHER, 0, None, "master", epoch=5, slots="100-199")],
    }


def line(node: str, at_s: float, kind: str, **fields: object) -> LoggedLine:
    """A line of the log of *node*."""
    return LoggedLine(node, "10.0.0.1", PORTS[node], round(at_s * S), EventKind(kind), **fields)  # type: ignore[arg-type]


WON = (
    line(NEW, 9.9, "election-started", epoch=6),
    line(OTHER, 9.95, "vote", subject=NEW, epoch=6),
    line(NEW, 10, "election-won"),
    line(NEW, 10, "config-epoch", epoch=6, detail="failover"),
    line(OLD, 12, "became-replica", subject=NEW, role="M"),
)


def seconds(sighting: Sighting) -> tuple[float, float]:
    """The interval of a sighting."""
    return sighting.min_ns / S, sighting.max_ns / S


def test_a_change_of_the_own_role_between_two_polls_is_a_promotion() -> None:
    (promotion,) = seen_in_views(polled(NEW, by_s=10.5, after_s=9.5), {})

    assert (promotion.winner, promotion.old, promotion.epoch) == (NEW, OLD, 6)
    assert (promotion.slots, promotion.first_hand) == ("0-99", True)
    assert seconds(promotion) == (9.5, 10.5)


def test_events_missed_by_a_stopped_observer_have_wide_bounds() -> None:
    """Its first answer after a gap in the polls still shows the old view."""
    asked = [1, 2, 3, 9.9, 10.5]

    (promotion,) = seen_in_views(polled(OTHER, by_s=10.5, after_s=9.9), {OTHER: [round(at * S) for at in asked]})

    assert seconds(promotion) == (2.85, 10.5)


def test_a_reset_replica_is_not_promoted() -> None:
    """It has no slots, and no epoch that is greater than all others (R82)."""
    views = polled(NEW, by_s=10, after_s=9)
    views[NEW, NEW][1] = views[NEW, NEW][1]._replace(slots="", config_epoch=4)

    assert list(seen_in_views(views, {})) == []


def test_the_winners_log_has_time_epoch_and_no_order() -> None:
    (promotion,) = seen_in_logs(Lines(WON))

    assert (promotion.winner, promotion.old, promotion.epoch, promotion.order) == (NEW, OLD, 6, "automatic")
    assert seconds(promotion) == (10, 10.001)


@pytest.mark.parametrize(
    "hint",
    [
        line(NEW, 10, "became-master", subject=OLD),
        line(NEW, 1, "became-replica", subject=OLD),
        line(NEW, 1, "master-connecting", detail="10.0.0.1:7000"),
        line(OLD, 9, "manual-failover-mfstart", subject=NEW),
        line(OLD, 1, "sync-asked", detail="10.0.0.1:7001"),
        line(OTHER, 10.1, "failover-seen", subject=NEW, peer=OLD, epoch=6),
    ],
)
def test_the_old_master_is_named_by_any_log(hint: LoggedLine) -> None:
    start = (line(OLD, 0, "started"), line(NEW, 0, "started"))

    (promotion,) = merge_sightings(seen_in_logs(Lines([*start, line(NEW, 10, "election-won"), hint])))

    assert promotion.old == OLD


def test_an_address_names_the_node_that_logged_there_at_the_time() -> None:
    lines = Lines([line(OLD, 1, "started"), line(NEW, 20, "identity")._replace(port=7000)])

    assert [lines.node_at("10.0.0.1:7000", at * S) for at in (0, 5, 25)] == [OLD, OLD, NEW]


def test_other_nodes_are_not_taken_for_an_old_master_without_a_log() -> None:
    """The winner had moved to an address that no log has; a replica that died before returns as its replica."""
    gone = [line(NEW, 0, "started"), line(OTHER, 9, "fail-learned", subject="9" * 40), line(NEW, 10, "election-won")]
    links = [
        line(NEW, at, "master-connecting", detail=place) for at, place in ((1, "10.0.0.1:7000"), (5, "10.0.0.9:7009"))
    ]
    moved = [line(OLD, 0, "started"), line(OLD, 1, "sync-asked", detail="10.0.0.1:7001"), *links]
    back = [line(OTHER, 5, "fail-learned", subject=OLD), line(OLD, 12, "became-replica", subject=NEW, role="S")]

    for more, old in ((moved, "9" * 40), (back, "")):
        (promotion,) = merge_sightings(seen_in_logs(Lines([*gone, *more])))
        assert promotion.old == old


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        ([line(NEW, 10, "takeover")], "takeover"),
        ([line(NEW, 9, "manual-failover-requested"), line(NEW, 10, "election-won")], "manual"),
        ([line(NEW, 9, "manual-failover-forced"), line(NEW, 10, "election-won")], "forced"),
        (
            [line(NEW, 4, "manual-failover-requested"), line(NEW, 9, "manual-failover-timed-out"), line(NEW, 10, "election-won")],
            "automatic",
        ),
    ],
)  # fmt: skip
def test_the_winners_log_names_the_reason(lines: list[LoggedLine], order: str) -> None:
    assert [promotion.order for promotion in seen_in_logs(Lines(lines))] == [order]


def test_votes_and_followers_show_a_promotion_without_the_winners_log() -> None:
    without = [entry for entry in WON if entry.observer != NEW]

    (promotion,) = seen_in_logs(Lines(without))

    assert (promotion.winner, promotion.epoch) == (NEW, 6)
    assert seconds(promotion) == (9.95, 12.001)


def test_a_voter_that_sees_the_cluster_up_after_its_vote_shows_the_promotion() -> None:
    """Only the log of one voter is there: the slots of the failed master have a master again."""
    lines = [
        line(OTHER, 9, "fail-decided", subject=OLD, role="M"),
        line(OTHER, 9, "state-fail", role="M"),
        line(OTHER, 9.95, "vote", subject=NEW, epoch=6, role="M"),
        line(OTHER, 10.1, "state-ok", role="M"),
    ]

    (promotion,) = seen_in_logs(Lines(lines))

    assert (promotion.winner, promotion.old, promotion.epoch) == (NEW, OLD, 6)
    assert seconds(promotion) == (9.95, 10.101)


def test_a_vote_alone_shows_no_promotion() -> None:
    """The old master was back before the cluster was up again."""
    lines = [
        line(OTHER, 9, "fail-decided", subject=OLD, role="M"),
        line(OTHER, 9, "state-fail", role="M"),
        line(OTHER, 9.95, "vote", subject=NEW, epoch=6, role="M"),
        line(OTHER, 10.05, "fail-cleared", subject=OLD, role="M"),
        line(OTHER, 10.1, "state-ok", role="M"),
    ]

    assert list(seen_in_logs(Lines(lines))) == []


def test_a_master_that_follows_its_replica_was_replaced_without_votes() -> None:
    """CLUSTER FAILOVER TAKEOVER, by the log of the old master: both addresses are those of one node."""
    lines = [
        line(OLD, 1, "sync-asked", detail="10.0.0.1:7001", role="M"),
        line(OLD, 10, "became-replica", subject=NEW, text="Configuration change detected. Reconfiguring …", role="M"),
        line(OLD, 10, "master-connecting", detail="10.0.0.1:7001", role="S"),
    ]

    (promotion,) = seen_in_logs(Lines(lines))

    assert (promotion.winner, promotion.old, promotion.epoch, promotion.max_ns) == (NEW, OLD, 0, 10_001_000_000)


def test_a_master_that_follows_the_node_that_took_its_last_slot_was_not_replaced() -> None:
    """It had never been its replica: resharding."""
    lines = [
        line(OLD, 1, "sync-asked", detail="10.0.0.1:7003", role="M"),
        line(OLD, 10, "became-replica", subject=NEW, text="Configuration change detected. Reconfiguring …", role="M"),
        line(OLD, 10, "master-connecting", detail="10.0.0.1:7001", role="S"),
    ]

    assert list(seen_in_logs(Lines(lines))) == []


def test_another_nodes_view_shows_a_promotion() -> None:
    """Valkey 8.1 and later: ``Reconfiguring node NEW as primary``, and the old master becomes its replica."""
    lines = [
        line(OTHER, 1, "replica-seen", subject=NEW, peer=OLD, role="M"),
        line(OTHER, 10, "master-seen", subject=NEW, role="M"),
        line(OTHER, 11, "replica-seen", subject=OLD, peer=NEW, role="M"),
    ]

    (promotion,) = seen_in_logs(Lines(lines))

    assert (promotion.winner, promotion.old) == (NEW, OLD)
    assert seconds(promotion) == (1, 10.001)


def scraped() -> dict[tuple[str, str], list[NodeViewRow]]:
    """NEW is a master in the scrape after 1 s: its epoch and slots are not among its metrics."""
    before = row(NEW, NEW, 0, 16, "slave", master=OLD)
    after = row(NEW, NEW, 16, None, "master", epoch=0, min_s=1)
    return {(NEW, NEW): [sample._replace(evidence=Source.METRICS) for sample in (before, after)]}


KINDS: Mapping[str, list[Sighting]] = {
    "own polls": list(seen_in_views(polled(NEW, by_s=10.5, after_s=9.5), {})),
    "polls of another": list(seen_in_views(polled(OTHER, by_s=10.2, after_s=9.2), {})),
    "logs": list(seen_in_logs(Lines(WON))),
    "metrics": list(seen_in_views(scraped(), {})),
}


@pytest.mark.parametrize("names", [some for count in range(1, 4) for some in combinations(KINDS, count)])
def test_more_evidence_shows_the_same_promotion_and_narrows_its_time(names: tuple[str, ...]) -> None:
    (fewer,) = merge_sightings(sighting for name in names for sighting in KINDS[name])

    supersets = [(*names, other) for other in KINDS if other not in names]
    more = [merge_sightings(sighting for name in some for sighting in KINDS[name]) for some in supersets]
    assert [[(promotion.winner, promotion.epoch or 6) for promotion in promotions] for promotions in more] == [
        [(NEW, 6)]
    ] * len(more)
    assert all(fewer.min_ns <= promotion.min_ns <= promotion.max_ns <= fewer.max_ns for (promotion,) in more)


def test_different_clocks_are_measured_and_the_log_wins() -> None:
    """The poller's clock is three seconds ahead of the server's."""
    (promotion,) = merge_sightings([*KINDS["logs"], *seen_in_views(polled(NEW, by_s=13.5, after_s=12.5), {})])

    assert (promotion.min_ns / S, promotion.max_ns / S, promotion.skew_ns / S) == (10, 10.001, 2.499)


def test_a_promotion_whose_epoch_collided_is_the_same_with_its_next_epoch() -> None:
    (promotion,) = merge_sightings([*KINDS["logs"], *seen_in_views(polled(NEW, by_s=10.5, after_s=9.5, epoch=7), {})])

    assert (promotion.epoch, promotion.min_ns) == (6, 10 * S)
