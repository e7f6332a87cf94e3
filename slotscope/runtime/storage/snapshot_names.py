"""Names of snapshots: new ones, the latest of a cluster, the one before, and the cluster of a snapshot."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any, Final

from schemas.runs import CLUSTERS, RUNS
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST
from slotscope.runtime.storage.delta_files import Part, any_of, exists, read_rows

KEY_JOBS: Final = ("key-slots",)
HISTORY_JOBS: Final = ("history", "bus-replay")
"""The job that writes cluster history, and its former name in older tables."""
REPLAY_JOBS: Final = (*HISTORY_JOBS, "sentinel-replay")
ID_DIGITS: Final = 8
"""Digits of a node id in the name of an unnamed cluster."""


def time_name(started_at: datetime) -> str:
    """The name of a snapshot without one: the time, ``2026-11-23T020000Z``."""
    return f"{started_at.astimezone(UTC):%Y-%m-%dT%H%M%SZ}"


def fresh_name(moment: str, cluster: str | None, taken: Container[str]) -> str:
    """A name that is not *taken*: *moment*, with the name of the cluster where one was given, and a number where that is needed."""
    name = moment + (f"-{cluster}" if cluster else "")
    return next(tried for tried in chain([name], (f"{name}-{number}" for number in count(2))) if tried not in taken)


def find_name(root: str, name: str, jobs: Sequence[str], cluster: str | None = None) -> str:
    """The name that *name* means: of ``latest`` that of the newest finished snapshot of *jobs*.

    Raises InputError where there is none, or where there are several clusters and none is named.
    """
    if name != LATEST:
        return name
    runs = _finished(root, jobs, cluster)
    if not runs:
        of = f" of cluster {cluster}" if cluster else ""
        raise InputError(
            f"{root}: no finished snapshot{of} of {' or '.join(jobs)}; slotscope tables snapshots lists what is there"
        )
    known = {run["cluster"] for run in runs}
    if len(known) > 1:
        names = ", ".join(sorted(str(name) for name in known if name))
        raise InputError(
            f"{root} holds snapshots of several clusters: say which one with --cluster or --snapshot: {names}"
        )
    return str(runs[-1]["snapshot_id"])


def name_before(root: str, name: str, jobs: Sequence[str]) -> str:
    """The finished snapshot before *name*, of the same cluster; raises InputError where there is none."""
    runs = _finished(root, jobs)
    own = {run["cluster"] for run in runs if run["snapshot_id"] == name}
    names = [run["snapshot_id"] for run in runs if run["cluster"] in own]
    if name not in names[1:]:
        raise InputError(
            f"{root}: no finished snapshot before {name}: name both; slotscope tables snapshots lists them"
        )
    return str(names[names.index(name) - 1])


def finished_names(root: str, jobs: Sequence[str], cluster: str | None) -> list[str]:
    """The finished snapshots of *jobs*, of one cluster or of all, the newest last."""
    return [run["snapshot_id"] for run in _finished(root, jobs, cluster)]


def _finished(root: str, jobs: Sequence[str], cluster: str | None = None) -> list[dict[str, Any]]:
    """Finished runs by the time of their data, then by their end; unknown times come first."""
    if not exists(root, RUNS):
        return []
    order = "data_at NULLS FIRST, ended_at NULLS FIRST, snapshot_id"
    where = f"{any_of('job', jobs)} AND {any_of('cluster', [cluster]) if cluster else 'TRUE'}"
    return read_rows(root, RUNS, columns=("snapshot_id", "cluster"), where=where, order_by=order, state="complete")


def cluster_of(root: str, name: str) -> str | None:
    """The cluster that the finished snapshot *name* is of; None where that is not known."""
    runs = read_rows(root, RUNS, columns=("cluster",), snapshot_id=name, state="complete") if exists(root, RUNS) else []
    return next((str(run["cluster"]) for run in runs if run["cluster"]), None)


def recognise(
    root: str, node_ids: Iterable[str], given: str | None, parts: Sequence[Part] | None = None
) -> tuple[str | None, list[dict[str, Any]]]:
    """The name of the cluster of these nodes: *given*, the cluster that last had one of them, or a name made of an id; None without ids.

    Also returns the rows of silver/clusters for nodes that are new there; *parts* are read in place of that table.
    """
    from cluster_core.topology.nodes_text import NODE_ID

    ids = sorted({node_id for node_id in node_ids if NODE_ID.fullmatch(node_id)})
    if not ids:
        return given, []
    is_there = parts is not None or exists(root, CLUSTERS)
    rows = read_rows(root, CLUSTERS, where=any_of("node_id", ids), order_by="since", parts=parts) if is_there else []
    name = given or (rows[-1]["cluster"] if rows else f"cluster-{ids[0][:ID_DIGITS]}")
    known = {row["node_id"] for row in rows if row["cluster"] == name}
    now = datetime.now(UTC)
    return name, [{"cluster": name, "node_id": node_id, "since": now} for node_id in ids if node_id not in known]
