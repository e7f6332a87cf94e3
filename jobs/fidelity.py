"""How true is a replay?  Recorded clusters, replayed, against what their servers said of themselves.

For every recording under a folder: the share of (sample, node) rows of CLUSTER NODES that the replayed view shows as
recorded, by scenario and field, from the capture alone and with polls or logs as further input; message counters of
CLUSTER INFO; events of the logs one to one.  Starts no Spark: it runs the tasks of ``bus-replay`` in this process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slotscope.requests.fidelity import Request
from slotscope.runtime import cli

if TYPE_CHECKING:
    from slotscope.sources.bus.recording import Recording, Replayed


def command(request: Request) -> int | None:
    """Compare replays of recorded clusters with what their servers said of themselves."""
    from slotscope.runtime.errors import InputError
    from slotscope.sources.bus.recording import find_recordings

    found = [r for r in find_recordings(request.captures) if not request.scenario or r.path.name in request.scenario]
    if not found:
        raise InputError(f"{request.captures}: no recordings (folders with bus.pcap and truth.jsonl)")
    worst = 100.0
    for recording in found:
        for line, percent in _judged(recording, request):
            worst = min(worst, percent)
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"lowest: {worst:.3f} %\n")
    return cli.PARTIAL if worst < request.least else None


def _judged(recording: Recording, request: Request) -> Iterator[tuple[str, float]]:
    from cluster_core.replay.fidelity import compare_views, score
    from slotscope.reports.fidelity import counters_line, events_line, score_line, wrong_lines

    polls, logs = request.polls, request.log
    inputs = (
        [(0, False), (polls or 5, False), (0, True), (polls or 5, True)] if request.every_input else [(polls, logs)]
    )
    samples, alone = recording.samples(), None
    for poll_every, with_logs in inputs:
        replayed = _replay(recording, poll_every, with_logs)
        verdicts = compare_views(replayed.views, samples)
        result = score(verdicts)
        words = " ".join(["capture", *(["polls"] if poll_every else []), *(["logs"] if with_logs else [])])
        worse = alone is not None and result.right < alone
        line = score_line(recording.name, words, result, replayed) + ("  WORSE than the capture alone" if worse else "")
        yield line, result.percent
        if alone is None:
            alone = result.right
            yield counters_line(recording, replayed), 100.0
            yield events_line(recording, replayed), 100.0
        for wrong in wrong_lines(verdicts, request.show):
            yield wrong, 100.0


def _replay(recording: Recording, poll_every: int, with_logs: bool) -> Replayed:
    from slotscope.sources.bus.polls_and_logs import PollsAndLogs

    with tempfile.TemporaryDirectory(prefix="slotscope-") as folder:
        polls = (recording.polls(poll_every, Path(folder) / "polls.jsonl"),) if poll_every else ()
        logs = tuple(str(path) for path in recording.logs()) if with_logs else ()
        return recording.replay(PollsAndLogs(polls, logs))


if __name__ == "__main__":
    cli.main(command)
