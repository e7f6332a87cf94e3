"""How true is a replay?  Recorded clusters, replayed, against what their servers said of themselves.

For every recording under a folder: the share of (sample, node) rows of CLUSTER NODES that the replayed view shows as
recorded, by scenario and field, from the capture alone and with polls or logs as further input; message counters of
CLUSTER INFO; events of the logs one to one.  Starts no Spark: it runs the tasks of ``bus-replay`` in this process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotscope.runtime import cli
from slotscope.runtime.cli import Flag, Paths

if TYPE_CHECKING:
    from slotscope.sources.bus.recording import Recording, Replayed


def command(
    captures: str,
    *,
    scenario: Paths = (),
    polls: int = 0,
    logs: Flag = False,
    every_input: Flag = False,
    show: int = 0,
    least: float = 0.0,
) -> int | None:
    """Compare replays of recorded clusters with what their servers said of themselves.

    Parameters
    ----------
    captures
        Folder with recordings: bus.pcap, truth.jsonl and logs/PORT.log, each plain or gzip.
    scenario
        Only recordings whose folder has one of these names.
    polls
        Also give every POLLS-th answer of CLUSTER NODES to the replay.
    logs
        Also give the logs to the replay.
    every_input
        Run each recording from the capture alone, with polls, with logs and with both; the last column says whether any is worse.
    show
        Print the first SHOW wrong rows of each recording.
    least
        End with exit code 3 if a recording is below this percentage.
    """
    from slotscope.runtime.errors import InputError
    from slotscope.sources.bus.recording import find_recordings

    found = [r for r in find_recordings(captures) if not scenario or r.path.name in scenario]
    if not found:
        raise InputError(f"{captures}: no recordings (folders with bus.pcap and truth.jsonl)")
    worst = 100.0
    for recording in found:
        for line, percent in _judged(recording, polls, logs, every_input, show):
            worst = min(worst, percent)
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"lowest: {worst:.3f} %\n")
    return cli.PARTIAL if worst < least else None


def _judged(recording: Recording, polls: int, logs: bool, every_input: bool, show: int) -> Iterator[tuple[str, float]]:
    from cluster_core.replay.fidelity import compare_views, score
    from slotscope.reports.fidelity import counters_line, events_line, score_line, wrong_lines

    inputs = [(0, False), (polls or 5, False), (0, True), (polls or 5, True)] if every_input else [(polls, logs)]
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
        for wrong in wrong_lines(verdicts, show):
            yield wrong, 100.0


def _replay(recording: Recording, poll_every: int, with_logs: bool) -> Replayed:
    from slotscope.sources.bus.polls_and_logs import PollsAndLogs

    with tempfile.TemporaryDirectory(prefix="slotscope-") as folder:
        polls = (recording.polls(poll_every, Path(folder) / "polls.jsonl"),) if poll_every else ()
        logs = tuple(str(path) for path in recording.logs()) if with_logs else ()
        return recording.replay(PollsAndLogs(polls, logs))


def main(argv: Sequence[str] | None = None) -> None:
    """What ``make fidelity`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
