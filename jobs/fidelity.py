"""Measure the accuracy of replays against the answers of the recorded servers.

For every recording under a folder: the share of (sample, node) rows of CLUSTER NODES that the replayed view shows as
recorded, by scenario and field, from the capture alone and with polls or logs as further input; message counters of
CLUSTER INFO; events of the logs one to one.  Starts no Spark: it runs the tasks of ``history`` in this process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from slotscope.options import Flag, Paths, options
from slotscope.runtime import cli

if TYPE_CHECKING:
    from slotscope.reports.fidelity import Judged
    from slotscope.sources.bus.recording import Recording, Replayed


@options
class Request:
    """Options of `fidelity`."""

    captures: str = field(kw_only=False)
    """Folder with recordings: bus.pcap, truth.jsonl, logs/PORT.log, plain or gzip"""
    scenario: Paths = ()
    """Names of recordings"""
    polls: int = 0
    """Every n-th answer of CLUSTER NODES as input; 0: none"""
    log: Annotated[Flag, Parameter(alias="--logs")] = False
    """Logs as input"""
    every_input: Flag = False
    """Each recording from the capture alone, with polls, logs and both"""
    show: int = 0
    """Number of wrong rows shown per recording"""
    json: Flag = False
    """Output as JSON"""
    least: float = 0.0
    """Least percentage; below it the exit code is 3"""


def command(request: Request) -> int | None:
    """Compare replays of recorded clusters with what their servers said of themselves."""
    from slotscope.reports.fidelity import print_judged
    from slotscope.runtime.errors import InputError
    from slotscope.sources.bus.recording import find_recordings

    found = [r for r in find_recordings(request.captures) if not request.scenario or r.path.name in request.scenario]
    if not found:
        raise InputError(f"{request.captures}: no recordings (folders with bus.pcap and truth.jsonl)")
    judged = chain.from_iterable(_judged(recording, request) for recording in found)
    lowest = print_judged(judged, as_json=request.json, stream=sys.stdout)
    return cli.PARTIAL if lowest < request.least else None


def _judged(recording: Recording, request: Request) -> Iterator[Judged]:
    from cluster_core.replay.fidelity import compare_views, score
    from slotscope.reports.fidelity import judge_counters, judge_events, judge_views, wrong_lines

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
        judged = judge_views(recording.name, words, result, replayed)
        worse = "  WORSE than the capture alone" if alone is not None and result.right < alone else ""
        yield judged._replace(told=judged.told + worse, wrong=tuple(wrong_lines(verdicts, request.show)))
        if alone is None:
            alone = result.right
            yield judge_counters(recording, replayed)
            yield judge_events(recording, replayed)


def _replay(recording: Recording, poll_every: int, with_logs: bool) -> Replayed:
    from slotscope.sources.bus.polls_and_logs import PollsAndLogs

    with tempfile.TemporaryDirectory(prefix="slotscope-") as folder:
        polls = (recording.polls(poll_every, Path(folder) / "polls.jsonl"),) if poll_every else ()
        logs = tuple(str(path) for path in recording.logs()) if with_logs else ()
        return recording.replay(PollsAndLogs(polls, logs))


if __name__ == "__main__":
    cli.main(command)
