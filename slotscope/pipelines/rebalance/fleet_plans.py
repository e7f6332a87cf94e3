"""Plans for many clusters in one application: a process per core makes them, and a cluster that fails stops no other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields, replace
from typing import Final

from slotscope.options import Common
from slotscope.pipelines.rebalance.inputs import find_inputs
from slotscope.pipelines.rebalance.options import PlanningOptions
from slotscope.pipelines.rebalance.rows import store_plan
from slotscope.reports.delivery import deliver
from slotscope.reports.rebalance.fleet import FleetPlansReport, PlannedCluster
from slotscope.reports.rebalance.report import headline
from slotscope.reports.rebalance.tables import load_rebalance_report
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import IMPOSSIBLE, NEW_PLAN, code_of_all, describe
from slotscope.runtime.progress import progress, silence
from slotscope.sources import fleet_manifest

SHARED: Final = frozenset(field.name for field in fields(Common)) - {"mode"} | {
    "cluster",
    "html",
    "if_needed",
    "manifest",
}
"""Options that cannot be set per cluster."""
OWN: Final = ("cluster", "drain", "html", "monitor", "slot_stats", "topology", "weight")
"""Options that are set per cluster."""


def requests_of(request: PlanningOptions, parse: Callable[[Sequence[str]], PlanningOptions]) -> list[PlanningOptions]:
    """Return a request per cluster of the manifest of *request*; raises InputError."""
    for name in OWN:
        if getattr(request, name):
            raise InputError(f"--{name.replace('_', '-')}: set it per cluster, in the manifest")
    asked = fleet_manifest.requests_of(request, request.manifest or "", parse, SHARED, fleet_manifest.PLAN)
    return [
        replace(entry, snapshot=tuple(f"{name}-{entry.cluster}" for name in request.snapshot))
        if entry.snapshot is request.snapshot
        else entry
        for entry in asked
    ]


def plan_clusters(requests: Sequence[PlanningOptions], now_ms: int) -> Iterator[PlannedCluster]:
    """Make and store the plan of each of *requests*, with a page for those that move slots; yield them as they end."""
    done = 0
    workers = min(os.cpu_count() or 1, len(requests))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin_worker)
    with progress("planning", lambda: f"{done} of {len(requests)} clusters"):
        pending = {pool.submit(_plan, request, now_ms): request for request in requests}
        try:
            for ended in as_completed(pending):
                done += 1
                error = ended.exception()
                failed = error and PlannedCluster(str(pending[ended].cluster), failure=describe(error))
                yield failed or ended.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it ends, also where it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _plan(request: PlanningOptions, now_ms: int) -> PlannedCluster:
    with silence():
        outcome = store_plan(request.root, find_inputs(request), join_ranges=request.defragment, now_ms=now_ms)
        stored = outcome.made.stored
        plan = stored.plan
        worst = max(plan.reach, key=lambda reach: reach.before / (reach.limit or 1))
        planned = PlannedCluster(
            str(request.cluster),
            stored.plan_id,
            stored.snapshot_id,
            verdict=str(plan.verdict),
            resource=worst.resource,
            before=float(worst.before),
            after=float(worst.after),
            limit=float(worst.limit),
            cost=plan.cost,
            moved=plan.moved // plan.unit,
            moved_slots=len(plan.moves),
            estimated_s=outcome.made.estimated_s,
            has_conflict=bool(plan.conflicts),
            is_partial=outcome.is_partial,
        )
        if not planned.needs_a_person:
            return planned
        report = load_rebalance_report(request.root, stored.plan_id)
        return replace(
            planned, sentence=headline(report), page=deliver(report, root=request.root, html=None, stream=None)
        )


def exit_code(report: FleetPlansReport, *, if_needed: bool) -> int:
    """The exit code of a job: a cluster without a plan counts first, then limits that contradict each other, then a needed plan."""
    clusters = report.clusters
    code = code_of_all(
        [planned.failure for planned in clusters], is_partial=any(planned.is_partial for planned in clusters)
    )
    if code == 0 and any(planned.has_conflict for planned in clusters):
        return IMPOSSIBLE
    return NEW_PLAN if code == 0 and if_needed and any(planned.moved_slots for planned in clusters) else code
