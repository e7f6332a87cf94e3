"""Measure the accuracy of replays of sentinels against their recorded answers and events.

For every recording under a folder, from the capture, from the capture as if nobody had subscribed to the events, from
the logs, and from capture and logs: the share of answers to SENTINEL MASTERS, REPLICAS and SENTINELS that the replayed
beliefs show as recorded, and how many events of the sentinels' own channels are found.  Starts no Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

from slotscope.options import Flag, options
from slotscope.runtime import cli

if TYPE_CHECKING:
    from cluster_core.sentinel_history.comparison import EventCount, Verdict
    from slotscope.reports.fidelity import Judged
    from slotscope.sources.sentinel.recording import SentinelRecording


@options
class Request:
    """Options of `sentinel-fidelity`."""

    captures: str = field(kw_only=False)
    """Folder with recordings: resp.pcap, truth.jsonl, events.jsonl, logs/PORT.log, plain or gzip"""
    show: int = 0
    """Number of wrong fields and missing events shown"""
    json: Flag = False
    """Output as JSON"""
    least: float = 0.0
    """Least percentage; below it, or with a missing event, the exit code is 3"""


WRONG_CHARS_MAX = 300


def command(request: Request) -> int | None:
    """Compare replays of recorded sentinels with what they answered and announced themselves.

    A sample is one answer of one sentinel with all its instances; none is left out. It is right when flags, addresses,
    epochs and roles of all its instances are, at one moment while it was asked; the second share is of those right in
    run ids, votes, and what replicas say of their master, too.
    """
    from slotscope.reports.fidelity import print_judged
    from slotscope.runtime.errors import InputError
    from slotscope.sources.sentinel.recording import find_sentinel_recordings

    found = find_sentinel_recordings(request.captures)
    if not found:
        raise InputError(f"{request.captures}: no recordings of sentinels (folders with resp.pcap and truth.jsonl)")
    judged = chain.from_iterable(_judged(recording, request.show) for recording in found)
    lowest = print_judged(judged, as_json=request.json, stream=sys.stdout)
    return cli.PARTIAL if lowest < request.least else None


def _judged(recording: SentinelRecording, show: int) -> Iterator[Judged]:
    from slotscope.reports.fidelity import Judged

    alone = 0
    for words, is_judged, verdict, events in judge(recording):
        worse = "  WORSE than less" if words == "capture logs" and verdict.right < alone else ""
        alone = max(alone, verdict.right)
        counted = min(verdict.percent, 100.0 if not events.missing else 0.0) if is_judged else None
        told, wrong = _told(verdict, events) + worse, tuple(_wrong_lines(verdict, events, show))
        yield Judged(recording.name, words, verdict.percent, verdict.right, verdict.samples, told, wrong, counted)


def judge(recording: SentinelRecording) -> Iterator[tuple[str, bool, Verdict, EventCount]]:
    """What it was replayed from, whether the promise is about that, and how right it came out."""
    from cluster_core.sentinel_history.comparison import compare_beliefs, compare_events
    from cluster_core.sentinel_history.history import fold_history
    from slotscope.sources.sentinel.recording import without_events

    evidence = recording.read()
    heard = recording.heard(evidence)
    for words, captured, logged, is_judged in (
        ("capture", evidence.captured, {}, True),
        ("capture, no events", without_events(evidence.captured), {}, False),
        ("logs", {}, evidence.logged, False),
        ("capture logs", evidence.captured, evidence.logged, True),
    ):
        history = fold_history(captured, logged)
        verdict = compare_beliefs(history.spans, evidence.polled)
        verdict.samples += evidence.unknown_answers  # of sentinels of which nothing was found out
        yield words, is_judged, verdict, compare_events(history.events, heard)


def _told(verdict: Verdict, events: EventCount) -> str:
    wrong = ", ".join(f"{field} {count}" for field, count in verdict.by_field.most_common()) or "none"
    known = events.found + len(events.missing)
    return (
        f"in all fields {verdict.percent_in_all:.3f} %  wrong: {wrong}  "
        f"events {events.found}/{known}, {events.unheard} more"
    )


def _wrong_lines(verdict: Verdict, events: EventCount, limit: int) -> Iterator[str]:
    from slotscope.runtime.text import printable

    for wrong in verdict.wrong[:limit]:
        words = f"    {wrong.ts_ns} {wrong.observer[:8]} {' '.join(wrong.key)} {wrong.field}: said {wrong.said!r}, "
        yield printable(words + f"replayed {wrong.believed!r}", WRONG_CHARS_MAX)
    for observer, channel, text in events.missing[:limit]:
        yield printable(f"    not found: {observer[:8]} {channel} {text}", WRONG_CHARS_MAX)


if __name__ == "__main__":
    cli.main(command)
