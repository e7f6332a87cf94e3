"""Replication as a person reads it: who followed whom, and every resync in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from schemas.replication import REPLICATION_LINKS, RESYNCS
from slotscope.runtime.delta_files import read_rows
from slotscope.runtime.text import printable

SHOWN_MAX = 1_000
"""Resyncs and links that are told; the tables hold all."""


def load_replication(root: str, snapshot: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of gold/resyncs and of silver/replication_links, in order; raises InputError where there are none."""
    return (
        read_rows(root, RESYNCS, order_by="resync_id", limit=SHOWN_MAX, snapshot_id=snapshot),
        read_rows(root, REPLICATION_LINKS, order_by="link_id, piece", limit=SHOWN_MAX, snapshot_id=snapshot),
    )


def replication_lines(resyncs: Sequence[dict[str, Any]], links: Sequence[dict[str, Any]]) -> list[str]:
    """Return the report: a sentence a resync with its time, what was unexpected, and who follows whom at the end."""
    if not resyncs and not links:
        return ["no replication in these captures"]
    start_ns = min(row["ts_ns"] for row in resyncs) if resyncs else 0
    lines = [_headline(resyncs)]
    for row in resyncs:
        mark = "" if row["as_foreseen"] in (True, None) else "  (not as foreseen)"
        lines.append(f"{(row['ts_ns'] - start_ns) / 1e9:>10.3f} s  {row['why']}{mark}")
    lines += ["", "at the end:", *(_last_lines(links) or ["  nobody follows anybody"])]
    return [printable(line) for line in lines]


def _headline(resyncs: Sequence[dict[str, Any]]) -> str:
    kinds = Counter(row["answered"] or "unanswered" for row in resyncs)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    dumped = sum(row["dump_bytes"] for row in resyncs if row["answered"] == "full")
    answered = [row for row in resyncs if row["as_foreseen"] is not None]
    foreseen = sum(row["as_foreseen"] for row in answered)
    return f"{len(resyncs)} resyncs: {counts}; {dumped:,} bytes of dumps; {foreseen} of {len(answered)} as foreseen"


def _last_lines(links: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"  {row['replica']} follows {row['master']}: {row['state']}, {row['link_status']}"
        + (f", offset {row['offset']:,}" if row["offset"] is not None else "")
        for row in links
        if row["valid_to"] is None
    ]
