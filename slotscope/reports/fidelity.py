"""How true replays of recordings are, in lines or as JSON."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from cluster_core.replay.fidelity import Score, Verdict
from cluster_core.replay.log_clock import PAIRED_KINDS, compare_events
from slotscope.reports.records import write_json
from slotscope.runtime.text import printable
from slotscope.sources.bus.recording import Counted, InfoSample, Recording, Replayed

ASKED_NS: Final = 30_000_000
"""A counter is read and a packet is stamped so close to the answer at best."""
IN_FLIGHT: Final = 1
"""Messages that were captured on their way to a process that has not read them yet."""


class Judged(NamedTuple):
    """One comparison: *right* of *rows* are as recorded, *percent* of them; *counted* is what `print_judged` takes for the lowest, None for nothing."""

    recording: str
    what: str
    percent: float
    right: int
    rows: int
    told: str
    wrong: tuple[str, ...] = ()
    counted: float | None = None


def print_judged(judged: Iterable[Judged], *, as_json: bool, stream: TextIO) -> float:
    """Print each as soon as it is known, or all as one JSON object; return the lowest percentage of those that count."""
    known = []
    for one in judged:
        known.append(one)
        if not as_json:
            first = (
                f"{one.recording:32s} {one.what:18s} {one.percent:8.3f} %  {one.right}/{one.rows}  {one.told}".rstrip()
            )
            stream.write("\n".join((first, *one.wrong)) + "\n")
            stream.flush()
    lowest = min((one.counted for one in known if one.counted is not None), default=100.0)
    if as_json:
        write_json({"lowest": lowest, "judged": known}, stream)
    else:
        stream.write(f"lowest: {lowest:.3f} %\n")
    return lowest


def judge_views(name: str, words: str, result: Score, replayed: Replayed) -> Judged:
    """Views against CLUSTER NODES, by field."""
    wrong = ", ".join(f"{field} {count}" for field, count in result.wrong.items() if count) or "none"
    told = f"wrong: {wrong}  (T {replayed.node_timeout_ms} ms {replayed.timeout_from})"
    return Judged(name, words, result.percent, result.right, result.rows, told, counted=result.percent)


def wrong_lines(verdicts: Sequence[Verdict], limit: int) -> Iterator[str]:
    """The first wrong rows."""
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    for verdict in wrong[:limit]:
        expected = tuple(verdict.expected)[1:] if verdict.expected else None
        got = tuple(verdict.got)[1:] if verdict.got else None
        yield printable(
            f"    {verdict.ts_ns} {verdict.observer[:8]} of {verdict.node_id[:8]} {','.join(verdict.wrong)}:"
            f" said {expected}, replayed {got}",
            400,
        )


def judge_counters(recording: Recording, replayed: Replayed) -> Judged:
    """Decoded messages against the counters of CLUSTER INFO, both ways."""
    rows = right = 0
    by_port: dict[int, list[InfoSample]] = {}
    for info in recording.infos():
        by_port.setdefault(info.port, []).append(info)
    for process, counted in replayed.counted.items():
        infos = next((found for port, found in by_port.items() if process.port in (port, port + 10_000)), [])
        told, true = _compare_counters(infos, counted)
        rows, right = rows + told, right + true
    share = 100.0 * right / rows if rows else 100.0
    return Judged(recording.name, "counters", share, right, rows, "of CLUSTER INFO")


def _compare_counters(infos: Sequence[InfoSample], counted: Sequence[Counted]) -> tuple[int, int]:
    """How many counters there are, and how many agree; they begin anew when a process is restarted."""
    times: dict[tuple[str, bool], list[int]] = {}
    for message in counted:
        times.setdefault((message.name, message.sent), []).append(message.ts_ns)
    for found in times.values():
        found.sort()
    rows = right = 0
    base: dict[tuple[str, bool], int] = {}
    last_sum, last_ns = 0, 0
    for info in infos:
        total = sum(info.counters.values())
        if total < last_sum:
            base = {key: bisect_right(found, last_ns + ASKED_NS) for key, found in times.items()}
        last_sum, last_ns = total, info.to_ns
        for key, value in info.counters.items():
            found = times.get(key, [])
            low = bisect_right(found, info.from_ns - ASKED_NS) - base.get(key, 0)
            high = bisect_right(found, info.to_ns + ASKED_NS) - base.get(key, 0)
            slack = 0 if key[1] else IN_FLIGHT
            rows += 1
            right += low - slack <= value <= high + slack
    return rows, right


def judge_events(recording: Recording, replayed: Replayed) -> Judged:
    """Events of the replay against the logs, one to one."""
    both = 0
    alone: list[str] = []
    for process, captured in sorted(replayed.events.items()):
        logged = recording.logged(process.port - 10_000)
        if logged is None:
            continue
        found = compare_events(logged, captured)
        for kind in PAIRED_KINDS:
            both += found[kind].both
            alone += [f"{process.port - 10_000} {kind} log only at {told.ts_ns}" for told in found[kind].log_only]
            alone += [f"{process.port - 10_000} {kind} bus only at {told.ts_ns}" for told in found[kind].bus_only]
    listed = "; ".join(alone[:4]) + (" ..." if len(alone) > 4 else "")
    rows = both + len(alone)
    share = 100.0 * both / rows if rows else 100.0
    return Judged(
        recording.name, "log events", share, both, rows, f"{both} agree, {len(alone)} do not {listed}".rstrip()
    )
