"""What would a node have answered to CLUSTER NODES then?  Reads silver/node_views, which bus-replay wrote; writes none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slotscope.runtime import cli
from slotscope.runtime.cli import Common

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cluster_core.replay.rows import NodeViewRow

EVERYBODY = "all"


def view_rows(views: DataFrame) -> list[NodeViewRow]:
    """Rows of silver/node_views as values of the core."""
    from cluster_core.gossip.causes import Cause
    from cluster_core.replay.rows import NodeViewRow

    return [
        NodeViewRow(
            row["observer"], row["node_id"], row["ip"], row["port"], row["cport"], row["hostname"], row["flags"],
            row["master_id"], int(row["config_epoch"]), row["slots"], row["link_known"], row["valid_from_ns"],
            row["valid_to_ns"], Cause(row["cause"]), -1 if row["message_id"] is None else row["message_id"],
        )
        for row in views.toLocalIterator()
    ]  # fmt: skip


def rows_at(spark: SparkSession, *, root: str, snapshot: str, times_ns: Sequence[int]) -> list[NodeViewRow]:
    """The beliefs of all observers that hold at any of *times_ns*."""
    from pyspark.sql import functions as F

    from schemas.history import NODE_VIEWS
    from slotscope.runtime import tables

    views = tables.read_snapshot(spark, NODE_VIEWS, root, snapshot)
    holds = F.lit(False)
    for ts_ns in times_ns:
        open_end = F.col("valid_to_ns").isNull() | (F.col("valid_to_ns") > ts_ns)
        holds = holds | ((F.col("valid_from_ns") <= ts_ns) & open_end)
    return view_rows(views.where(holds).orderBy("observer", "node_id", "valid_from_ns"))


def run(
    spark: SparkSession,
    *,
    root: str,
    snapshot: str = "current",
    observer: str = EVERYBODY,
    at: str | None = None,
    diff: str | None = None,
    versus: str | None = None,
) -> list[str]:
    """Return the lines that `command` prints; raises InputError if the observer or the time is not known."""
    from cluster_core.incidents.instants import read_instant, write_instant
    from cluster_core.incidents.past_views import find_observer
    from slotscope.reports.history.views import address_book, difference_lines, view_lines
    from slotscope.runtime.errors import InputError

    if diff is not None and versus is not None:
        raise InputError("give either --diff (one observer, two times) or --versus (two observers, one time)")
    at_ns = _last_ns(spark, root, snapshot) if at is None else _instant(read_instant, at)
    other_ns = at_ns if diff is None else _instant(read_instant, diff)
    rows = rows_at(spark, root=root, snapshot=snapshot, times_ns=sorted({at_ns, other_ns}))
    book = address_book(rows)
    if not book:
        raise InputError(f"{root}: snapshot {snapshot!r} holds no view at {write_instant(at_ns)}")
    chosen = sorted(book) if observer == EVERYBODY else [find_observer(observer, book)]
    if versus is not None:
        if observer == EVERYBODY:
            raise InputError("--versus compares two observers: name the other one with --observer")
        other = find_observer(versus, book)
        return difference_lines(rows, (chosen[0], at_ns), (other, at_ns), book)
    if diff is not None:
        return [line for one in chosen for line in difference_lines(rows, (one, at_ns), (one, other_ns), book)]
    headed = len(chosen) > 1
    return [line for one in chosen for line in view_lines(rows, one, at_ns, book, headed=headed)]


def _instant(read: Any, text: str) -> int:
    from slotscope.runtime.errors import InputError

    try:
        return int(read(text))
    except ValueError as error:
        raise InputError(str(error)) from error


def _last_ns(spark: SparkSession, root: str, snapshot: str) -> int:
    """The last evidence of the replay."""
    from schemas.history import REPLAYS
    from slotscope.runtime import tables
    from slotscope.runtime.errors import InputError

    row = tables.read_snapshot(spark, REPLAYS, root, snapshot).first()
    if row is None:
        raise InputError(f"{root}: no finished replay {snapshot!r}; run the bus-replay job for it")
    return int(row["last_ns"] or 0)


def command(
    *,
    observer: str = EVERYBODY,
    at: str | None = None,
    diff: str | None = None,
    versus: str | None = None,
    snapshot: str = "current",
    common: Common,
) -> None:
    """Print CLUSTER NODES as a node would have answered it at some time.

    Ping and pong times are 0: the tables do not hold them.

    Parameters
    ----------
    observer
        Whose answer: a node id, the beginning of one, host:port, or all.
    at
        When: ISO 8601 (UTC unless it says otherwise), or s, ms, µs or ns since 1970. Default: the last evidence.
    diff
        Another time: print what is different then.
    versus
        Another observer: print what it sees differently.
    snapshot
        Name of the snapshot that bus-replay wrote.
    """
    lines = run(
        common.session("nodes"), root=common.root, snapshot=snapshot, observer=observer, at=at, diff=diff, versus=versus
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
