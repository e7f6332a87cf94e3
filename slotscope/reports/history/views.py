"""Past views as text: CLUSTER NODES lines, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cluster_core.incidents.instants import write_instant
from cluster_core.incidents.past_views import view_at, view_differences
from cluster_core.replay.rows import NodeViewRow
from cluster_core.topology.nodes_text import write_nodes
from slotscope.runtime.text import printable

LINE_LENGTH_MAX = 200_000
"""A node with every second slot needs fewer characters."""
Asked = tuple[str, int]
"""An observer and a time in ns."""


def address_book(rows: Iterable[NodeViewRow]) -> dict[str, str]:
    """The address of each observer, as it knew itself or as the others knew it."""
    rows = list(rows)
    book = {row.observer: "" for row in rows}
    for row in rows:
        if row.node_id in book and row.ip and (row.observer == row.node_id or not book[row.node_id]):
            book[row.node_id] = f"{row.ip}:{row.port}"
    return book


def view_lines(
    rows: Sequence[NodeViewRow], observer: str, ts_ns: int, book: dict[str, str], *, headed: bool
) -> list[str]:
    """CLUSTER NODES as *observer* would have answered; *headed* puts its name and the time before it."""
    mine = [row for row in rows if row.observer == observer]
    text = write_nodes(view_at(mine, observer, ts_ns)).decode("utf-8", "surrogateescape")
    lines = [printable(line, LINE_LENGTH_MAX) for line in text.splitlines()]
    head = [f"# {printable(observer, 80)} {printable(book.get(observer, ''), 80)} at {write_instant(ts_ns)}"]
    return head + lines if headed else lines


def difference_lines(rows: Sequence[NodeViewRow], first: Asked, second: Asked, book: dict[str, str]) -> list[str]:
    """What the second view shows differently from the first, one line a field; says so if there is nothing."""
    one, other = (view_at([row for row in rows if row.observer == who], who, when) for who, when in (first, second))
    head = [f"# {_who(first, book)} -> {_who(second, book)}"]
    found = [
        f"{printable(node, 80)} {field}: {printable(before, LINE_LENGTH_MAX)} -> {printable(after, LINE_LENGTH_MAX)}"
        for node, field, before, after in view_differences(one, other)
    ]
    return head + (found or ["no difference"])


def _who(asked: Asked, book: dict[str, str]) -> str:
    observer, ts_ns = asked
    return f"{printable(observer, 80)} {printable(book.get(observer, ''), 80)} at {write_instant(ts_ns)}"
