"""Past views as text: CLUSTER NODES lines, and differences between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cluster_core.incidents.past_views import Difference, held_at, printed_fields, view_at, view_differences
from cluster_core.incidents.story import seconds
from cluster_core.instants import time_ns, write_instant
from cluster_core.kinds import NAMES_NO_SLOTS, Source
from cluster_core.replay.rows import NodeViewRow
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import write_nodes
from slotscope.runtime.text import plural, printable

LINE_LENGTH_MAX = 200_000
"""A node with every second slot needs fewer characters."""
NAMED_MAX = 5
"""Nodes that one line names."""


def address_book(rows: Iterable[NodeViewRow]) -> dict[str, str]:
    """The address of each observer, as it knew itself or as the others knew it."""
    rows = list(rows)
    book = {row.observer: "" for row in rows}
    for row in rows:
        if row.node_id in book and row.ip and (row.observer == row.node_id or not book[row.node_id]):
            book[row.node_id] = f"{row.ip}:{row.port}"
    return book


class PastView(NamedTuple):
    """Past answer of *observer* to CLUSTER NODES; *same* is the number of nodes with this answer and of all, where compared.

    *pending* are beliefs that its next answer shows, and that may have begun before; *names_no_slots* is the evidence, where that is its
    log or metrics; *answered_ns* its last answer, where it missed polls since.
    """

    observer: str
    address: str
    at: str
    topology: Topology
    same: tuple[int, int] | None = None
    pending: tuple[NodeViewRow, ...] = ()
    names_no_slots: Source | None = None
    answered_ns: int | None = None

    def lines(self, *, headed: bool) -> list[str]:
        """The answer; *headed* puts the observer and the time before it."""
        text = write_nodes(self.topology).decode("utf-8", "surrogateescape")
        head = f"# {printable(self.observer, 80)} {printable(self.address, 80)} at {self.at}"
        same = f"# {self.same[0]} of {plural(self.same[1], 'node')} answer so" if self.same else ""
        return [
            *([head, *([same] if same else [])] if headed else []),
            *([f"# {self.age}"] if self.answered_ns else []),
            *([f"# {self.uncertainty}"] if self.pending else []),
            *([f"# {self.unknown}"] if self.names_no_slots else []),
            *(printable(line, LINE_LENGTH_MAX) for line in text.splitlines()),
        ]

    @property
    def age(self) -> str:
        """How old the last answer is."""
        age_ms = ((time_ns(self.at) or 0) - (self.answered_ns or 0)) // 1_000_000
        return f"no answer for {seconds(age_ms)}: this is the last one, at {write_instant(self.answered_ns or 0)}"

    @property
    def uncertainty(self) -> str:
        """How far the answer may be out of date."""
        nodes = dict.fromkeys(f"{row.ip}:{row.port}" if row.port else row.node_id[:8] for row in self.pending)
        named = ", ".join([*nodes][:NAMED_MAX]) + (" and others" if len(nodes) > NAMED_MAX else "")
        since = write_instant(min(row.valid_from_min_ns or 0 for row in self.pending))
        until = write_instant(max(row.valid_from_ns for row in self.pending))
        return f"uncertain: {printable(named, 400)} changed at some time from {since} to {until}, the next answer"

    @property
    def unknown(self) -> str:
        """Limits of the evidence."""
        source = "its log" if self.names_no_slots is Source.LOG else "metrics"
        return f"from {source} alone: slots, epochs printed as 0 and nodes without an event are unknown"

    def record(self) -> dict[str, Any]:
        """The same as fields: of each node those that CLUSTER NODES prints, null where unknown."""
        changes = {
            row.node_id: {
                "changed_after": write_instant(row.valid_from_min_ns or 0),
                "changed_by": write_instant(row.valid_from_ns),
            }
            for row in self.pending
        }
        unknown = {"slots": None} if self.names_no_slots else {}
        nodes = [
            {"id": node.id, **printed_fields(node), **unknown, **changes.get(node.id, {})}
            for node in self.topology.nodes
        ]
        head = {"observer": self.observer, "address": self.address, "at": self.at}
        head |= {"answered_at": write_instant(self.answered_ns)} if self.answered_ns else {}
        return {**head, **({"same": self.same[0], "of": self.same[1]} if self.same else {}), "nodes": nodes}


class PastDifference(NamedTuple):
    """Differences of the second view (observer, address, time) from the first."""

    first: tuple[str, str, str]
    second: tuple[str, str, str]
    differences: list[Difference]
    nodes: int = 1

    def lines(self, *, headed: bool = True) -> list[str]:
        """One line a field; says so if there is nothing."""
        sides = [
            f"{printable(observer, 80)} {printable(address, 80)} at {at}"
            for observer, address, at in (self.first, self.second)
        ]
        lines = [
            f"{printable(node, 80)} {field}: {printable(before, LINE_LENGTH_MAX)} -> {printable(after, LINE_LENGTH_MAX)}"
            for node, field, before, after in self.differences
        ]
        more = f" and {plural(self.nodes - 1, 'more node')}" if self.nodes > 1 else ""
        return [*([f"# {' -> '.join(sides)}{more}"] if headed else []), *(lines or ["no difference"])]

    def record(self) -> dict[str, Any]:
        """The same as fields."""
        return {"first": self.first, "second": self.second, "nodes": self.nodes, "differences": self.differences}


def past_view(
    rows: Sequence[NodeViewRow],
    observer: str,
    ts_ns: int,
    book: dict[str, str],
    pending: Iterable[NodeViewRow] = (),
) -> PastView:
    """The view of *observer* at *ts_ns*; *pending* are beliefs of later answers that may have begun before."""
    mine = [row for row in rows if row.observer == observer]
    later = tuple(row for row in pending if row.observer == observer)
    topology = view_at(mine, observer, ts_ns)
    own = next((row for row in held_at(mine, ts_ns) if row.node_id == observer), None)
    source = own.evidence if own is not None and own.evidence in NAMES_NO_SLOTS else None
    return PastView(observer, book.get(observer, ""), write_instant(ts_ns), topology, None, later, source)


def past_difference(
    rows: Sequence[NodeViewRow], observer: str, first_ns: int, second_ns: int, book: dict[str, str]
) -> PastDifference:
    """Return the differences between two times in the view of *observer*."""
    first, other = (past_view(rows, observer, ts_ns, book) for ts_ns in (first_ns, second_ns))
    return PastDifference(first[:3], other[:3], view_differences(first.topology, other.topology))


def agreed_views(views: Sequence[PastView]) -> list[PastView | PastDifference]:
    """Return the most common of *views*, then the differences of each other answer, under its first observer.

    Views from logs or metrics are no whole answers: they give one, of each node by its own row.
    """
    if all(view.names_no_slots for view in views):
        return [_own_rows(views)]
    groups: dict[object, list[PastView]] = {}
    for view in views:
        shown = frozenset((node.id, *printed_fields(node).values()) for node in view.topology.nodes)
        groups.setdefault(shown, []).append(view)
    most, *rest = sorted(groups.values(), key=len, reverse=True)
    return [
        most[0]._replace(same=(len(most), len(views))),
        *(
            PastDifference(most[0][:3], group[0][:3], view_differences(most[0].topology, group[0].topology), len(group))
            for group in rest
        ),
    ]


def _own_rows(views: Sequence[PastView]) -> PastView:
    """Each node as it knew itself, with PFAIL and FAIL where another held it to be failing."""
    failing: dict[str, NodeFlags] = {}
    for view in views:
        for node in view.topology.nodes:
            failing[node.id] = failing.get(node.id, NodeFlags(0)) | node.flags & (NodeFlags.PFAIL | NodeFlags.FAIL)
    own = [view.topology.nodes[0] for view in views]
    nodes = [replace(node, flags=node.flags & ~NodeFlags.MYSELF | failing[node.id]) for node in own]
    return PastView("each node", "", views[0].at, Topology(tuple(nodes)), names_no_slots=views[0].names_no_slots)
