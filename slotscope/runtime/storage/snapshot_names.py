"""Names of finished snapshots: the latest of a cluster, the one before another, and the cluster of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from schemas.runs import RUNS
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST
from slotscope.runtime.storage.delta_files import any_of, exists, read_rows

KEY_JOBS: Final = ("key-slots",)
HISTORY_JOBS: Final = ("history", "bus-replay")
"""The job that writes cluster history, and its former name in older tables."""
REPLAY_JOBS: Final = (*HISTORY_JOBS, "sentinel-replay")
LISTED: Final = "slotscope tables snapshots lists them"


def find_name(root: str, name: str, jobs: Sequence[str], cluster: str | None = None) -> str:
    """The name that *name* means: for ``latest`` that of the newest finished snapshot of *jobs*.

    Raises InputError where there is none, or where there are several clusters and none is named.
    """
    if name != LATEST:
        return name
    runs = _finished(root, job=jobs, cluster=[cluster] if cluster else ())
    if not runs:
        of = f" of cluster {cluster}" if cluster else ""
        raise InputError(f"{root}: no finished snapshot{of} of {' or '.join(jobs)}; {LISTED}")
    clusters = {run["cluster"] for run in runs}
    if len(clusters) > 1:
        names = ", ".join(sorted(filter(None, clusters)))
        raise InputError(
            f"{root} holds snapshots of several clusters: select one with --cluster or --snapshot: {names}"
        )
    return str(runs[-1]["snapshot_id"])


def name_before(root: str, name: str, jobs: Sequence[str]) -> str:
    """The finished snapshot before *name*, of the same cluster; raises InputError where there is none."""
    runs = _finished(root, job=jobs)
    own = {run["cluster"] for run in runs if run["snapshot_id"] == name}
    names = [str(run["snapshot_id"]) for run in runs if run["cluster"] in own]
    if name not in names[1:]:
        raise InputError(f"{root}: no finished snapshot before {name}: name both; {LISTED}")
    return names[names.index(name) - 1]


def finished_names(root: str, jobs: Sequence[str], cluster: str | None) -> list[str]:
    """The finished snapshots of *jobs*, of one cluster or of all, the newest last."""
    return [run["snapshot_id"] for run in _finished(root, job=jobs, cluster=[cluster] if cluster else ())]


def cluster_of(root: str, name: str) -> str | None:
    """The cluster of the finished snapshot *name*; None where it is unknown."""
    return next((str(run["cluster"]) for run in _finished(root, snapshot_id=[name]) if run["cluster"]), None)


def _finished(root: str, **values: Sequence[str]) -> list[dict[str, Any]]:
    """Finished runs with one of *values* in each column, by the time of their data, then by their end; unknown times come first."""
    if not exists(root, RUNS):
        return []
    order = "data_at NULLS FIRST, ended_at NULLS FIRST, snapshot_id"
    where = " AND ".join(["TRUE", *(any_of(name, known) for name, known in values.items() if known)])
    return read_rows(root, RUNS, columns=("snapshot_id", "cluster"), where=where, order_by=order, state="complete")
