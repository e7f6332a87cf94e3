"""Reconstruct cluster history from server logs, polls, metrics and captures of the cluster bus, together or alone.

Prints the incidents and writes their page.  Writes bronze/bus_messages, slot_bitmaps and bad_records; with polls, logs or metrics
bronze/node_polls, log_events or metric_samples; and silver/node_views, disagreements,
failure_reports, votes, epochs, events, slot_owners, links, replay_state and replays.
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
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history
    from slotscope.reports.records import json_value, summaries, write_json
    from slotscope.runtime.text import printable

    inputs = check_request(request)
    outcome = run(request.session("history"), request, inputs)
    if request.json:
        write_json({**json_value(outcome), "runs": summaries(request.root, [outcome.snapshot])}, sys.stdout)
    else:
        sys.stdout.writelines(f"{printable(line)}\n" for line in outcome.lines())
        report = load_history(request.root, outcome.snapshot)
        deliver(report, root=request.root, html=None, stream=sys.stdout)
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


if __name__ == "__main__":
    cli.main(command)
