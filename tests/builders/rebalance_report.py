"""Makes rebalancing reports for tests by hand: a skewed cluster of any size, one with nothing to do, one with hostile names."""

from __future__ import annotations

from typing import Any

from cluster_core.rebalance.plan import PlanVerdict
from cluster_core.slots.slot_set import SlotSet
from schemas.caveats import Caveat
from slotscope.reports.rebalance.report import RebalanceReport
from slotscope.reports.records import Row
from tests.builders.reports_builder import changed

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
UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("asked", "warnings"), ()),
    "memory_error": None, "gain_min": 0.0, "bad_records": 0, "is_partial": False, "has_headroom": False,
}  # fmt: skip
"""Columns that most plans lack."""
FLOOR_OPS = 2.786
"""Operations have a slot that cannot be divided."""


def reach(resource: str, before: float, after: float, limit: float, floor: float = 1.0) -> Row:
    """A balanced resource."""
    return Row(resource=resource, tolerance=0.02, before=before, after=after, limit=limit, floor=floor)


def curve(number: int, choice: str | None, moved: int, over: float | None, ranges: int, slots: int) -> Row:
    """What another budget would give."""
    return Row(number=number, choice=choice, moved_bytes=moved, over_bound=over, ranges=ranges, moved_slots=slots)


def heavy(slot: int, node: str, ratio: float, pieces: int, parts: list[Row]) -> Row:
    """A slot that has too many operations."""
    return Row(slot=slot, node_id=node, resource="ops", ratio=ratio, pieces=pieces, parts=parts)


def part(tag: bytes | None, key: bytes | None, keys: int, size: int, share: float, pieces: int | None = None) -> Row:
    """A hash tag or a key of a heavy slot."""
    return Row(hash_tag=tag, key=key, keys=keys, bytes=size, share=share, part_pieces=pieces)


def node_id(number: int) -> str:
    """A node id that differs in its first digits."""
    return f"{(number * 2654435761) % 2**32:08x}{number:032x}"


def rebalance_report(masters: int = 6, *, hostile: bool = False) -> RebalanceReport:
    """A plan for *masters*: every third is too heavy, the last gets indivisible operations."""
    nodes = [_node(number, masters) for number in range(masters)]
    sources, targets = nodes[::3], [node for at, node in enumerate(nodes) if at % 3]
    transfers = [
        _transfer(
            1 + at * 3 // max(len(sources), 1),
            source.node_id,
            targets[at % len(targets)].node_id,
            (*range(100 * at % 16384, 100 * at % 16384 + 5), 100 * at % 16384 + 50),
            300_000_000 + at,
        )
        for at, source in enumerate(sources)
        if targets
    ]
    bound = 290_000_000 * len(sources)
    moved = sum(transfer.bytes or 0 for transfer in transfers)
    report = RebalanceReport(
        plan_id="0123456789ab",
        snapshot_id="2026-11-20",
        created_at_ms=MADE_MS,
        verdict=PlanVerdict.MOVE,
        cost="serialized_bytes",
        moved_bytes=moved,
        lower_bound_bytes=bound,
        gap=(moved - bound) / bound,
        moved_slots=sum(len(transfer.slots) for transfer in transfers),
        ranges_before=masters,
        ranges_after=masters + 4 * len(transfers),
        batches=max((transfer.batch for transfer in transfers), default=0),
        estimated_s=0.11 * len(transfers) + moved / 90e6,
        state_hash="9f" * 32,
        root="/data/slots",
        reaches=[
            reach("serialized_bytes", 1.967, 1.0198, 1.02),
            reach("keys", 1.42, 1.015, 1.02),
            reach("ops", 3.13, FLOOR_OPS, FLOOR_OPS, FLOOR_OPS),
        ],
        nodes=nodes,
        transfers=transfers,
        ranges_bound=masters,
        bytes_budget=0.05,
        curve=[
            curve(1, "fewest bytes", bound, 0.0, masters + 90, 140),
            curve(2, "recommended", moved, (moved - bound) / bound if bound else None, masters + 4 * len(transfers), 12),
            curve(3, "fewest ranges", 3 * moved, 3 * moved / bound - 1 if bound else None, masters + 1, 900),
        ],
        heavy=[
            heavy(
                7186, nodes[-1].node_id, FLOOR_OPS, 3,
                [
                    part(b"cart:42", None, 915, 41_200_000, 0.93, 3),
                    part(None, b"session:\xff\x00 index", 1, 1_100_000, 0.04),
                ],
            ),
            heavy(9, nodes[0].node_id, 2.1, 2, [part(None, b"counter:global", 1, 64, 0.99)]),
        ],
        **UNKNOWN,
    )  # fmt: skip
    return _hostile(report) if hostile else report


def quiet_report(verdict: str = PlanVerdict.BALANCED) -> RebalanceReport:
    """Nothing to do: balanced, or not worth it."""
    report = rebalance_report()
    before = 1.013 if verdict == PlanVerdict.BALANCED else 1.024
    return changed(
        report,
        verdict=verdict,
        moved_bytes=0,
        lower_bound_bytes=0 if verdict == PlanVerdict.BALANCED else 61_000_000,
        gap=None if verdict == PlanVerdict.BALANCED else -1.0,
        moved_slots=0,
        ranges_after=report.ranges_before,
        batches=0,
        estimated_s=0.0,
        gain_min=0.01,
        reaches=[reach("serialized_bytes", before, before, 1.02)],
        transfers=[],
        curve=[],
        heavy=[],
    )


def _transfer(batch: int, source: str, target: str, slots: tuple[int, ...], size: int) -> Row:
    ranges = SlotSet(slots).ranges()
    return Row(batch=batch, source=source, target=target, slots=slots, ranges=ranges, bytes=size, keys=1_200_000)


def _node(number: int, masters: int) -> Row:
    is_heavy = number % 3 == 0
    lean = 0.35 + 0.6 * ((number * 37) % 101) / 100
    shares = {}
    for at, (resource, fair) in enumerate(RESOURCES):
        last = resource == "ops" and number == masters - 1
        before = fair * (1.45 + 0.5 * ((number * 53 + at * 17) % 89) / 88 if is_heavy else lean)
        after = fair * (FLOOR_OPS if last else 0.93 + 0.089 * ((number * 29 + at * 7) % 97) / 96)
        limit = fair * (FLOOR_OPS if last else 1.02)
        capacity = 8e9 if resource != "ops" else None
        before = fair * 3.13 if last else before
        shares[resource] = Row(before=before, after=after, fair=fair, limit=limit, capacity=capacity)
    slots = 16384 // masters
    return Row(
        node_id=node_id(number), address=f"10.0.{number // 250}.{number % 250}:6379", zone="abc"[number % 3], role="stays",
        slots_before=slots, slots_after=slots - 6 if is_heavy else slots + 3, ranges_before=1, ranges_after=5 if is_heavy else 3,
        shares=shares,
    )  # fmt: skip


def _hostile(report: RebalanceReport) -> RebalanceReport:
    """Every text that may come from outside is one of `HOSTILE`."""
    everything = " ".join(HOSTILE)
    raw = everything.encode()
    evil = HOSTILE[1]
    return changed(
        report,
        plan_id=HOSTILE[0],
        snapshot_id=HOSTILE[0],
        root=HOSTILE[2],
        state_hash=everything,
        bad_records=3,
        warnings=[Caveat("warning", evil, everything)],
        reaches=[
            changed(reach, resource=evil) if reach.resource == "ops" else reach for reach in report.reaches
        ],
        nodes=[
            changed(
                node, address=HOSTILE[0], zone=everything, role=HOSTILE[2],
                shares={evil if name == "ops" else name: share for name, share in node.shares.items()},
            )
            for node in report.nodes
        ],
        transfers=[changed(transfer, source=everything) for transfer in report.transfers],
        heavy=[
            changed(line, node_id=evil, resource=evil, parts=[part(raw, None, 1, 1, 0.5, 2), part(None, raw, 1, 1, 0.5)])
            for line in report.heavy
        ],
    )  # fmt: skip
