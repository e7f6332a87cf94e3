"""Who followed whom, how far behind, and why was everything sent again?

Reads captures of client ports; writes silver/replication_links, silver/replication_offsets, gold/resyncs and
bronze/bad_records; tells every resync in one sentence, and draws them on a page.
"""

from __future__ import annotations

import sys

from slotscope.requests.replication_replay import Request
from slotscope.runtime import cli


def command(request: Request = Request()) -> int | None:
    """Replay captured replication traffic: links, offsets, and why each replica went on or was sent everything."""
    from slotscope.pipelines.replication import check_request, replay_replication
    from slotscope.reports.delivery import deliver
    from slotscope.reports.replication.report import load_replication

    inputs = check_request(request)
    spark = request.session("replication-replay")
    outcome = replay_replication(spark, request, inputs)
    report = load_replication(request.root, outcome.snapshot)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    if outcome.bad_records and not request.json:
        sys.stdout.write(f"{outcome.bad_records} bad records: see bronze/bad_records\n")
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


if __name__ == "__main__":
    cli.main(command)
