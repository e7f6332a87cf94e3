"""Reconstruct cluster history from server logs, polls, metrics and captures of the cluster bus, together or alone.

Writes bronze/bus_messages,
bronze/slot_bitmaps, bronze/bad_records, when given bronze/node_polls and bronze/log_events, when asked
bronze/gossip_entries, and silver/node_views, disagreements, failure_reports, votes, epochs, events, slot_owners, links,
memberships, ignored_inputs, replay_state and replays.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slotscope.pipelines.bus.options import HistoryOptions as Request
from slotscope.runtime import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.pipelines.bus.inputs import Inputs
    from slotscope.pipelines.bus.outcome import Outcome


def run(spark: SparkSession, request: Request, inputs: Inputs | None = None) -> Outcome:
    """Replay the evidence of *request* into the tables of its snapshot; *inputs* are its files if already listed."""
    from slotscope.pipelines.bus.history import HistoryReplay
    from slotscope.pipelines.bus.inputs import find_inputs

    return HistoryReplay(spark, request, inputs or find_inputs(request)).run()


def command(request: Request = Request()) -> int | None:
    """Reconstruct the history of a cluster: roles, slots, failovers, outages, restarts.

    Takes any mix of server logs, polls, metrics and captures of the cluster bus; `look FILES` detects their kinds. When new files
    of a series arrive, name them all, or use the same glob: known files are not read again.
    """
    from slotscope.pipelines.bus.inputs import check_request
    from slotscope.reports.records import print_records
    from slotscope.reports.run_summary import with_runs
    from slotscope.runtime.text import printable

    inputs = check_request(request)
    outcome = run(request.session("history"), request, inputs)
    result = with_runs(outcome, request.root, outcome.snapshot) if request.json else outcome
    print_records(result, lambda: map(printable, outcome.lines()), as_json=request.json, stream=sys.stdout)
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


if __name__ == "__main__":
    cli.main(command)
