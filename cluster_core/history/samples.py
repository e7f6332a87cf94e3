"""Samples of INFO and CLUSTER INFO, from polls or metrics: restarts, cluster state, lost keys, stalls.

A change lies between two different samples. `metric_rows` converts metrics to views without slots and failing nodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple

from cluster_core.formats.prometheus_answer import HOLE, MetricSample
from cluster_core.gossip.causes import Cause
from cluster_core.history.processes import Restart
from cluster_core.history.service import InterruptionReason, Interval
from cluster_core.history.statements import TICK_NS
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow

S: Final = 1_000_000_000
SLOW_NS: Final = S // 4
"""A reply slower than usual by this much shows a stalled server, if other nodes replied in time."""
NEAR_NS: Final = 2 * S
"""Time around a late reply in which slow replies of others show a busy poller."""
MISSED_POLLS: Final = 3
"""Missed polls in a row that date a silence to the first of them; one poll may get lost."""
REPLY_NS: Final = 100_000_000
"""Maximum reply time of a server after a stall."""
CLOCK_NS: Final = 2 * S
"""Maximum distance of a log line and a poll on one state change."""
Samples = Mapping[tuple[str, Source], Sequence[MetricSample]]
"""Samples by node and source, in time order."""


def without_refuted(samples: Samples) -> dict[tuple[str, Source], Sequence[MetricSample]]:
    """Drop failed scrapes of nodes that answered polls less than `CLOCK_NS` apart around them: only the exporter failed."""

    def is_refuted(node: str, scrape: MetricSample) -> bool:
        answers = samples.get((node, Source.POLL), ())
        at = bisect_left(answers, scrape.ts_ns, key=lambda answer: answer.ts_ns)
        return 0 < at < len(answers) and answers[at].ts_ns - answers[at - 1].ts_ns < CLOCK_NS

    return {
        (node, source): [scrape for scrape in mine if scrape.up is not False or not is_refuted(node, scrape)]
        for (node, source), mine in samples.items()
    }


# -- processes --------------------------------------------------------------------------------------------------------


def sampled_restarts(samples: Samples) -> Iterator[Restart]:
    """Yield restarts, shown by a new run id, a shorter uptime or reset counters."""
    for (node, source), scrapes in samples.items():
        mine = [scrape for scrape in scrapes if scrape.up is not False]
        down = [scrape for scrape in scrapes if scrape.up is False]
        last = 0
        for at in range(1, len(mine)):
            begin = last if _is_identified(mine[at]) else at - 1
            restart = _restarted_between(mine, begin, at)
            if restart is not None:
                yield _restart(node, source, mine, *restart, down)
            if restart is not None or _is_identified(mine[at]):
                last = at


def _is_identified(sample: MetricSample) -> bool:
    return bool(sample.server_run_id) or sample.uptime_s is not None


def _started(sample: MetricSample) -> tuple[int, int] | None:
    """Return bounds of the process start; uptime is a difference of whole seconds."""
    if sample.uptime_s is None:
        return None
    return sample.ts_min_ns - (sample.uptime_s + 1) * S, sample.ts_ns - (sample.uptime_s - 1) * S


def _restarted_between(mine: Sequence[MetricSample], begin: int, end: int) -> tuple[int, int] | None:
    """Return the last sample of the old process and the first of the new one; None without a restart."""
    for at in range(end, begin, -1):
        before, after = mine[at - 1].messages_sent, mine[at].messages_sent
        if before is not None and after is not None and after < before and mine[at - 1].ts_ns <= mine[at].ts_min_ns:
            return at - 1, at
    first, last, started = mine[begin], mine[end], _started(mine[end])
    if first.server_run_id and last.server_run_id:
        is_other = first.server_run_id != last.server_run_id
    elif first.uptime_s is not None and started is not None:
        is_other = first.ts_ns < started[0]
    else:
        is_other = False
    if not is_other:
        return None
    if started is None:
        return begin, end
    old = max((at for at in range(begin, end) if mine[at].ts_ns <= started[0]), default=begin)
    new = min((at for at in range(old + 1, end + 1) if mine[at].ts_min_ns >= started[1]), default=end)
    return old, new


def _restart(
    node: str, source: Source, mine: Sequence[MetricSample], old: int, new: int, down: Sequence[MetricSample]
) -> Restart:
    """Return the restart between two samples, dated by the first new uptime and failed scrapes (*down*)."""
    low_ns, high_ns = mine[old].ts_min_ns, mine[new].ts_ns
    shown = next(
        (span for scrape in mine[new:] if scrape.uptime_s is not None and (span := _started(scrape)) is not None), None
    )
    if shown is not None and low_ns <= shown[1] and shown[0] <= high_ns:
        low_start_ns, start_ns = max(low_ns, shown[0]), min(high_ns, shown[1])
    else:
        low_start_ns, start_ns = low_ns, high_ns
    loaded = 0 if mine[new].keys == 0 else None
    failed = [scrape for scrape in down if low_ns <= scrape.ts_min_ns and scrape.ts_ns <= high_ns]
    end_ns = min([start_ns, *(scrape.ts_ns for scrape in failed)])
    ready_ns = max([low_start_ns, *(scrape.ts_min_ns for scrape in failed)])
    return Restart(node, low_ns, end_ns, max(start_ns, ready_ns), high_ns, "", loaded, source, ready_ns)


# -- the state of the cluster -----------------------------------------------------------------------------------------


class StateChange(NamedTuple):
    """A node's cluster state changed between *min_ns* and *max_ns*; *is_start*: at its process start."""

    min_ns: int
    max_ns: int
    is_up: bool
    is_start: bool = False


def state_changes(
    logged: Iterable[StateChange], samples: Iterable[MetricSample], restarts: Iterable[Restart], first_ns: int
) -> list[StateChange]:
    """Merge one node's *logged* state changes with *samples*, with the narrower bounds; a process starts in FAIL (R106)."""
    seen = [
        StateChange(sample.ts_min_ns, sample.ts_ns, sample.cluster_ok)
        for sample in samples
        if sample.cluster_ok is not None
    ]
    exact = sorted(logged, key=lambda state: state.max_ns)
    starts = (
        (restart.start_ns, StateChange(restart.earliest_ready_ns, restart.ready_ns or restart.start_ns, False, True))
        for restart in restarts
    )
    ordered = [
        *((state.max_ns, 0, state) for state in exact),
        *((start_ns, 1, state) for start_ns, state in starts),
        *((state.max_ns, 2, state) for state in seen),
    ]
    ordered.sort(key=lambda entry: entry[:2])
    merged: list[StateChange] = []
    is_up: bool | None = None
    since_ns = after_ns = first_ns
    for at, (_, rank, state) in enumerate(ordered):
        if rank == 1:
            after, kind = next(((other, kind) for _, kind, other in ordered[at + 1 :] if kind != 1), (None, 0))
            if after is None or (after.min_ns < state.max_ns if after.is_up else kind != 2):
                continue  # it may have been OK at once
        elif rank == 2:
            if state.is_up == is_up or (is_up is None and state.is_up):
                is_up, since_ns, after_ns = state.is_up, max(since_ns, state.min_ns), max(after_ns, state.min_ns)
                continue
            if state.min_ns < since_ns and is_up is not None and state.max_ns - since_ns < CLOCK_NS:
                if merged and merged[-1].min_ns < state.min_ns <= merged[-1].max_ns:
                    merged[-1] = merged[-1]._replace(min_ns=state.min_ns)
                continue  # requested before the last change
            state = state._replace(min_ns=after_ns)
        elif (
            merged
            and merged[-1].is_up == state.is_up == is_up
            and merged[-1].min_ns - CLOCK_NS <= state.min_ns <= merged[-1].max_ns + CLOCK_NS
        ):
            merged[-1] = state = _narrowed(merged[-1], state)
            since_ns = max(since_ns, state.max_ns)
            after_ns = _earliest_after(state, since_ns)
            continue
        elif state.min_ns < after_ns < state.max_ns:
            state = state._replace(min_ns=after_ns)
        merged.append(state)
        is_up, since_ns = state.is_up, max(since_ns, state.min_ns if rank else state.max_ns)
        after_ns = _earliest_after(state, since_ns)
    return merged


def _earliest_after(transition: StateChange, since_ns: int) -> int:
    """Return the earliest time of the change after *transition*: a header may be built a tick before it is sent."""
    return since_ns if transition.min_ns == transition.max_ns else max(transition.min_ns, since_ns - TICK_NS)


def _narrowed(transition: StateChange, logged: StateChange) -> StateChange:
    """Narrow a change by a second source; *logged* wins a contradiction."""
    low, high = max(transition.min_ns, logged.min_ns), min(transition.max_ns, logged.max_ns)
    return logged._replace(min_ns=low, max_ns=high) if low <= high else logged


# -- data -------------------------------------------------------------------------------------------------------------


def emptied(samples: Samples, node: str, from_ns: int, to_ns: int) -> tuple[int, int] | None:
    """Return bounds of when *node* lost all keys it had before *from_ns*, by *to_ns*; None without evidence."""
    known = [sample for source in Source for sample in samples.get((node, source), ()) if sample.keys is not None]
    before = [sample for sample in known if sample.ts_min_ns <= from_ns]
    after = next((sample for sample in known if from_ns < sample.ts_min_ns <= to_ns and sample.keys == 0), None)
    return (before[-1].ts_min_ns, after.ts_ns) if before and before[-1].keys and after is not None else None


# -- stalls -----------------------------------------------------------------------------------------------------------


def silences(samples: Samples, node: str, alive_ns: Sequence[int] = ()) -> Iterator[Interval]:
    """Yield periods without timely answers of *node* while another node answered every poll, or with failed scrapes.

    *alive_ns* are the times, in order, at which its log or headers show activity.
    """
    yield from _failed_scrapes(node, samples.get((node, Source.METRICS), ()))
    answers = samples.get((node, Source.POLL), ())
    other_answers = [mine for (other, source), mine in samples.items() if source is Source.POLL and other != node]
    usual = cache(lambda at: (_pause_ns(other_answers[at]), _slow_ns(other_answers[at])))

    def others_answered(from_ns: int, to_ns: int) -> bool:
        return any(_answered_all(mine, from_ns, to_ns, *usual(at)) for at, mine in enumerate(other_answers))

    (pause_ns, slow_ns), (earlier, later) = (_pause_ns(answers), _slow_ns(answers)), _run_ids(answers)
    for at, (before, after) in enumerate(pairwise(answers)):
        due_ns = before.ts_ns + int(HOLE * pause_ns)
        is_late = after.ts_ns - after.ts_min_ns > slow_ns and _is_alone(after, slow_ns, other_answers)
        is_same = _is_same_process(before, after, earlier[at], later[at + 1])
        missed_ns = before.ts_ns + MISSED_POLLS * pause_ns if is_same else due_ns
        if not pause_ns or (after.ts_min_ns <= missed_ns and not is_late):
            continue
        if others_answered(before.ts_ns, after.ts_ns):
            high_ns = min(due_ns, after.ts_min_ns)
            low_ns, low_end_ns = before.ts_min_ns, high_ns if is_same else before.ts_ns
            if is_late:
                signs_ns = alive_ns[: bisect_right(alive_ns, high_ns)]
                low_ns, low_end_ns = max(low_ns, *signs_ns[-1:], low_ns), max(high_ns, after.ts_ns - REPLY_NS)
            yield Interval(node, InterruptionReason.UNREACHED, low_ns, high_ns, low_end_ns, after.ts_ns)
    last_ns = max((other[-1].ts_ns for other in other_answers if other), default=0)
    due_ns = answers[-1].ts_ns + int(HOLE * pause_ns) if pause_ns else last_ns
    if last_ns > due_ns + pause_ns and others_answered(answers[-1].ts_ns, last_ns):
        yield Interval(node, InterruptionReason.UNREACHED, answers[-1].ts_min_ns, due_ns, due_ns, None)


def _run_ids(answers: Sequence[MetricSample]) -> tuple[list[str], list[str]]:
    """Return the last known run id at each sample, and the next one: few samples have it."""
    ids = [answer.server_run_id for answer in answers]

    def latest(known: str, mine: str) -> str:
        return mine or known

    earlier = list(accumulate(ids, latest))
    later = list(accumulate(reversed(ids), latest))
    return earlier, later[::-1]


def _is_same_process(before: MetricSample, after: MetricSample, earlier: str, later: str) -> bool:
    """Return whether both samples are from one process, by the run ids known around them; then only a connection may have failed."""
    known = {earlier, later} - {""}
    if known:
        return len(known) == 1
    return before.messages_sent is not None and before.messages_sent <= (after.messages_sent or 0)


def _failed_scrapes(node: str, scrapes: Sequence[MetricSample]) -> Iterator[Interval]:
    """Yield runs of failed scrapes."""
    for is_down, group in groupby(range(len(scrapes)), key=lambda at: scrapes[at].up is False):
        run = list(group)
        if is_down and run[0]:
            after = scrapes[run[-1] + 1] if run[-1] + 1 < len(scrapes) else None
            first, last = scrapes[run[0]], scrapes[run[-1]]
            until_ns = None if after is None else after.ts_ns
            yield Interval(
                node, InterruptionReason.UNREACHED, scrapes[run[0] - 1].ts_min_ns, first.ts_ns, last.ts_min_ns, until_ns
            )


def _pause_ns(answers: Sequence[MetricSample]) -> int:
    """Return the usual time from a reply to the next request; 0 for too few replies."""
    pauses = sorted(after.ts_min_ns - before.ts_ns for before, after in pairwise(answers))
    return max(0, pauses[len(pauses) // 2]) if len(pauses) > 1 else 0


def _slow_ns(answers: Sequence[MetricSample]) -> int:
    """Return the reply time above which a reply is late."""
    waits = sorted(answer.ts_ns - answer.ts_min_ns for answer in answers)
    return SLOW_NS + waits[len(waits) // 2] if waits else SLOW_NS


def _is_alone(late: MetricSample, slow_ns: int, other_answers: Iterable[Sequence[MetricSample]]) -> bool:
    """Return whether a late reply is not due to a busy poller: another node was asked and answered meanwhile, or all soon."""
    usual_ns = 0
    for mine in other_answers:
        begin = bisect_left(mine, late.ts_min_ns - NEAR_NS, key=lambda answer: answer.ts_min_ns)
        end = bisect_left(mine, late.ts_ns + NEAR_NS, key=lambda answer: answer.ts_min_ns)
        for answer in mine[begin:end]:
            if late.ts_min_ns + slow_ns <= answer.ts_min_ns and answer.ts_ns <= late.ts_ns:
                return True
            usual_ns = max(usual_ns, answer.ts_ns - answer.ts_min_ns)
    return late.ts_ns - late.ts_min_ns > slow_ns + usual_ns


def _answered_all(answers: Sequence[MetricSample], from_ns: int, to_ns: int, usual_ns: int, slow_ns: int) -> bool:
    """Return whether a node with the *usual_ns* pause between polls replied to every request in time."""
    pause_ns = HOLE * usual_ns
    begin = max(0, bisect_right(answers, from_ns, key=lambda answer: answer.ts_ns) - 1)
    end = bisect_left(answers, to_ns, key=lambda answer: answer.ts_ns) + 1
    mine = answers[begin:end]
    return (
        pause_ns > 0
        and mine[0].ts_ns <= from_ns
        and to_ns <= mine[-1].ts_ns + pause_ns + slow_ns
        and all(
            after.ts_min_ns - before.ts_ns <= pause_ns and after.ts_ns - after.ts_min_ns <= slow_ns
            for before, after in pairwise(mine)
        )
    )


def metric_rows(samples: Iterable[MetricSample], ids: Mapping[str, str]) -> Iterator[NodeViewRow]:
    """Yield the rows of *samples*, ordered by server and time; *ids* maps known addresses to nodes."""
    for address, group in groupby(samples, key=lambda sample: sample.address):
        scrapes = list(group)
        node = ids.get(address, address)
        yield from _views(node, address, scrapes, ids)


def _views(node: str, address: str, samples: Iterable[MetricSample], ids: Mapping[str, str]) -> Iterator[NodeViewRow]:
    """Yield a server's own role, master and config epoch."""
    host, _, port = address.rpartition(":")
    row: NodeViewRow | None = None
    before_ns: int | None = None
    for sample in samples:
        if not sample.role:
            continue
        master = ids.get(sample.master, sample.master) if sample.role == "slave" else ""
        next_row = NodeViewRow(
            node, node, host, int(port) if port.isdigit() else 0, 0, "", f"myself,{sample.role}", master,
            sample.my_epoch or 0, "", True, sample.ts_ns, None, Cause.METRICS, -1, before_ns, Source.METRICS,
        )  # fmt: skip
        if row is None or (row.flags, row.master_id, row.config_epoch) != (
            next_row.flags, next_row.master_id, next_row.config_epoch,
        ):  # fmt: skip
            if row is not None:
                yield row._replace(valid_to_ns=sample.ts_ns)
            row = next_row
        before_ns = sample.ts_min_ns
    if row is not None:
        yield row
