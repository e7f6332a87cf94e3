"""What gossip costs: bytes and messages by node and type (R170 to R172)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cluster_core.incidents.incident import Finding, short
from cluster_core.kinds import FindingCode, Severity


class Cost(NamedTuple):
    """Messages of one type that *node* sent."""

    node: str
    kind: str
    messages: int
    bytes: int


def cost_findings(costs: Iterable[Cost], first_ns: int, last_ns: int) -> list[Finding]:
    """One note a node and type: *times* are messages, *amount* bytes."""
    seconds = max((last_ns - first_ns) / 1e9, 1e-3)
    found = []
    for cost in sorted(costs):
        rate = f"{cost.messages / seconds:.1f} messages/s, {cost.bytes / seconds:.0f} bytes/s"
        text = f"{short(cost.node)} sent {cost.messages} {cost.kind} messages, {cost.bytes} bytes: {rate}"
        found.append(
            Finding(Severity.NOTE, FindingCode.GOSSIP_COST, cost.node, cost.kind, first_ns, last_ns, cost.messages, cost.bytes,
                    text)
        )  # fmt: skip
    return found
