"""Makes rebalancing reports for tests by hand: a skewed cluster of any size, one with nothing to do, one with hostile names."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.rebalance.plan import PlanVerdict
from cluster_core.rebalance.table_rows import CurveRow
from schemas.caveats import Caveat
from slotscope.reports.rebalance.report import (
    EarlierPlan,
    HeavyLine,
    HeavyPart,
    NodeShare,
    PlanNode,
    RebalanceReport,
    Transfer,
    WorstLoad,
)

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "\x1b[31mred\x1b]0;title\x07",
    "{{ 7*7 }}{% raw %}",
    "right\u202eleft",
    "line\u2028separator",
)
MADE_MS = 1_790_000_000_000
RESOURCES = (("serialized_bytes", 5_000_000_000), ("keys", 20_000_000), ("ops", 400_000))
"""What is balanced, with its fair share."""
FLOOR_OPS = 2.786
"""Operations have a slot that cannot be divided."""


def node_id(number: int) -> str:
    """A node id that differs in its first digits."""
    return f"{(number * 2654435761) % 2**32:08x}{number:032x}"


def rebalance_report(masters: int = 6, *, hostile: bool = False) -> RebalanceReport:
    """A plan for *masters*: every third is too heavy, the last gets operations that nobody can divide."""
    nodes = [_node(number, masters) for number in range(masters)]
    sources, targets = nodes[::3], [node for at, node in enumerate(nodes) if at % 3]
    transfers = [
        Transfer(
            1 + at * 3 // max(len(sources), 1),
            source.node_id,
            targets[at % len(targets)].node_id,
            (*range(100 * at % 16384, 100 * at % 16384 + 5), 100 * at % 16384 + 50),
            300_000_000 + at,
            1_200_000,
        )
        for at, source in enumerate(sources)
        if targets
    ]
    bound = 290_000_000 * len(sources)
    moved = sum(one.moved_bytes or 0 for one in transfers)
    report = RebalanceReport(
        plan_id="0123456789ab",
        snapshot_id="2026-11-20",
        created_at_ms=MADE_MS,
        verdict=PlanVerdict.MOVE,
        cost="serialized_bytes",
        moved=moved,
        bound=bound,
        gap=(moved - bound) / bound,
        moved_slots=sum(len(one.slots) for one in transfers),
        ranges_before=masters,
        ranges_after=masters + 4 * len(transfers),
        batches=max((one.batch for one in transfers), default=0),
        estimated_s=0.11 * len(transfers) + moved / 90e6,
        state_hash="9f" * 32,
        root="/data/slots",
        reaches=[
            WorstLoad("serialized_bytes", 0.02, 1.967, 1.0198, 1.02, 1.0),
            WorstLoad("keys", 0.02, 1.42, 1.015, 1.02, 1.0),
            WorstLoad("ops", 0.02, 3.13, FLOOR_OPS, FLOOR_OPS, FLOOR_OPS),
        ],
        nodes=nodes,
        transfers=transfers,
        ranges_bound=masters,
        bytes_budget=0.05,
        curve=[
            CurveRow(1, 0.0, "fewest bytes", bound, 0.0, masters + 90, 140),
            CurveRow(2, 0.05, "recommended", moved, (moved - bound) / bound if bound else None, masters + 4 * len(transfers), 12),
            CurveRow(3, None, "fewest ranges", 3 * moved, 3 * moved / bound - 1 if bound else None, masters + 1, 900),
        ],
        heavy=[
            HeavyLine(
                7186, nodes[-1].node_id, "ops", FLOOR_OPS, 3,
                [
                    HeavyPart(b"cart:42", None, 915, 41_200_000, 0.93, 3),
                    HeavyPart(None, b"session:\xff\x00 index", 1, 1_100_000, 0.04),
                ],
            ),
            HeavyLine(9, nodes[0].node_id, "ops", 2.1, 2, [HeavyPart(None, b"counter:global", 1, 64, 0.99)]),
        ],
        history=[
            EarlierPlan("aaaa00000003", MADE_MS - 86_400_000, PlanVerdict.TOO_SMALL, 0, "serialized_bytes", {"serialized_bytes": 1.024}),
            EarlierPlan(
                "aaaa00000002", MADE_MS - 2 * 86_400_000, PlanVerdict.MOVE, 812_000_000, "serialized_bytes",
                {"serialized_bytes": 1.0198, "keys": 1.015}, {"serialized_bytes": 1.0187, "keys": 1.0152}, True, "executed",
            ),
            EarlierPlan(
                "aaaa00000001", MADE_MS - 9 * 86_400_000, PlanVerdict.MOVE, 1_912_000_000, "serialized_bytes",
                {"serialized_bytes": 1.0195, "keys": 1.011}, {"serialized_bytes": 1.0812, "keys": 1.012}, False, "executed",
            ),
            EarlierPlan("aaaa00000000", MADE_MS - 16 * 86_400_000, PlanVerdict.MOVE, 912_000, "serialized_bytes", {"keys": 1.011}),
        ],
    )  # fmt: skip
    return _hostile(report) if hostile else report


def quiet_report(verdict: str = PlanVerdict.BALANCED) -> RebalanceReport:
    """Nothing to do: balanced, or not worth it."""
    report = rebalance_report()
    before = 1.013 if verdict == PlanVerdict.BALANCED else 1.024
    return replace(
        report,
        verdict=verdict,
        moved=0,
        bound=0 if verdict == PlanVerdict.BALANCED else 61_000_000,
        gap=None if verdict == PlanVerdict.BALANCED else -1.0,
        moved_slots=0,
        ranges_after=report.ranges_before,
        batches=0,
        estimated_s=0.0,
        gain_min=0.01,
        reaches=[WorstLoad("serialized_bytes", 0.02, before, before, 1.02, 1.0)],
        transfers=[],
        curve=[],
        heavy=[],
    )


def _node(number: int, masters: int) -> PlanNode:
    heavy = number % 3 == 0
    lean = 0.35 + 0.6 * ((number * 37) % 101) / 100
    shares = {}
    for at, (resource, fair) in enumerate(RESOURCES):
        last = resource == "ops" and number == masters - 1
        before = fair * (1.45 + 0.5 * ((number * 53 + at * 17) % 89) / 88 if heavy else lean)
        after = fair * (FLOOR_OPS if last else 0.93 + 0.089 * ((number * 29 + at * 7) % 97) / 96)
        limit = fair * (FLOOR_OPS if last else 1.02)
        shares[resource] = NodeShare(
            fair * 3.13 if last else before, after, fair, limit, 8e9 if resource != "ops" else None
        )
    slots = 16384 // masters
    return PlanNode(
        node_id(number), f"10.0.{number // 250}.{number % 250}:6379", "abc"[number % 3], "stays", slots,
        slots - 6 if heavy else slots + 3, 1, 5 if heavy else 3, shares,
    )  # fmt: skip


def _hostile(report: RebalanceReport) -> RebalanceReport:
    """Every text that may come from outside is one of `HOSTILE`."""
    everything = " ".join(HOSTILE)
    raw = everything.encode()
    evil = HOSTILE[1]
    return replace(
        report,
        plan_id=HOSTILE[0],
        snapshot_id=HOSTILE[0],
        root=HOSTILE[2],
        state_hash=everything,
        bad_records=3,
        warnings=[Caveat("warning", evil, everything)],
        reaches=[
            replace(reach, resource=evil) if reach.resource == "ops" else reach for reach in report.reaches
        ],
        nodes=[
            replace(
                node, address=HOSTILE[0], zone=everything, role=HOSTILE[2],
                shares={evil if name == "ops" else name: share for name, share in node.shares.items()},
            )
            for node in report.nodes
        ],
        transfers=[replace(one, source=everything) for one in report.transfers],
        heavy=[
            replace(line, node_id=evil, resource=evil, parts=[HeavyPart(raw, None, 1, 1, 0.5, 2), HeavyPart(None, raw, 1, 1, 0.5)])
            for line in report.heavy
        ],
        history=[
            replace(one, plan_id=evil, verdict=everything, promised={evil: 1.0}, executed=HOSTILE[2]) for one in report.history
        ],
    )  # fmt: skip
