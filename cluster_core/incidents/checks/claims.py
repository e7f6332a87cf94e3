"""Findings on claims of nodes at the same time (slots, epochs, shards, masters: R80, R166), and on PFAIL without consequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cluster_core.incidents.finders.failures import find_episodes, is_failure
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.history import History, slots_text
from cluster_core.incidents.incident import Finding, short
from cluster_core.incidents.speech import Speech
from cluster_core.incidents.story import plural
from cluster_core.kinds import FindingCode, Severity


class Overlap(NamedTuple):
    """Overlapping spans of two nodes, from *from_ns* to *to_ns*."""

    one: Speech
    other: Speech
    from_ns: int
    to_ns: int


def check_claims(history: History) -> list[Finding]:
    """Return all violations."""
    return [
        *_split_claims(history), *_equal_epochs(history), *_two_masters(history), *_chains(history), *_suspicions(history),
    ]  # fmt: skip


def overlaps(history: History, wanted: Callable[[Speech], bool]) -> Iterator[Overlap]:
    """Yield pairs of matching spans of two nodes that overlap, in order."""
    spans = sorted(
        (span for spans in history.speech.values() for span in spans if wanted(span)),
        key=lambda span: (span.from_ns, span.node),
    )
    live: list[Speech] = []
    for span in spans:
        live = [old for old in live if old.to_ns > span.from_ns and old.node != span.node]
        for old in live:
            yield Overlap(old, span, span.from_ns, min(old.to_ns, span.to_ns))
        live.append(span)


def _lasting(
    history: History, wanted: Callable[[Speech], bool], contradict: Callable[[Overlap], bool], lasting_ns: int
) -> Iterator[tuple[str, str, list[Overlap], int, int]]:
    """Yield pairs of nodes in conflict for longer than *lasting_ns*: both, the overlaps, from and to."""
    pairs: dict[tuple[str, str], list[Overlap]] = {}
    for part in overlaps(history, wanted):
        if contradict(part):
            low, high = sorted((part.one.node, part.other.node))
            pairs.setdefault((low, high), []).append(part)
    for (low, high), parts in sorted(pairs.items()):
        for run in runs(parts, history.thresholds.silence_ns, lambda part: part.from_ns, lambda part: part.to_ns):
            from_ns, to_ns = run[0].from_ns, max(part.to_ns for part in run)
            if to_ns - from_ns > lasting_ns:
                yield low, high, run, from_ns, to_ns


def _split_claims(history: History) -> list[Finding]:
    """Check R166: two masters claim one slot; the lower epoch must give way."""
    slots = history.own_slots
    found = []
    for low, high, run, from_ns, to_ns in _lasting(
        history,
        lambda span: bool(slots(span)),
        lambda part: bool(slots(part.one) & slots(part.other)),
        history.thresholds.lasting_ns,
    ):
        bits = 0
        for part in run:
            bits |= slots(part.one) & slots(part.other)
        open_end = history.last_ns - to_ns < history.thresholds.silence_ns
        ending = "until the evidence ends" if open_end else f"for {(to_ns - from_ns) // 1_000_000} ms"
        found.append(
            Finding(
                Severity.ERROR if open_end or to_ns - from_ns > history.thresholds.grave_ns else Severity.WARNING,
                FindingCode.SPLIT_CLAIM, low, high, from_ns, to_ns, 1, (to_ns - from_ns) // 1_000_000,
                f"{short(low)} and {short(high)} both claimed {bits.bit_count()} slots {ending}: {slots_text(bits)}",
                (run[0].other.first_ref, run[-1].other.last_ref),
            )
        )  # fmt: skip
    return found


def _equal_epochs(history: History) -> list[Finding]:
    """Check R80, R166: two masters share a config epoch; the smaller id must change its epoch."""
    return [
        Finding(Severity.WARNING, FindingCode.EQUAL_EPOCHS, low, high, from_ns, to_ns, 1, (to_ns - from_ns) // 1_000_000,
                f"masters {short(low)} and {short(high)} had config epoch {run[0].one.config_epoch} for"
                f" {(to_ns - from_ns) // 1_000_000} ms", (run[0].other.first_ref, run[-1].other.last_ref))
        for low, high, run, from_ns, to_ns in _lasting(
            history, lambda span: span.is_master, lambda part: part.one.config_epoch == part.other.config_epoch, history.thresholds.grave_ns
        )
    ]  # fmt: skip


def shard_of(history: History, span: Speech) -> str:
    """Return a node's shard: its shard id (R65), else its last master, else itself."""
    if span.shard:
        return span.shard
    if span.replicaof:
        return span.replicaof
    before = [old for old in history.speech[span.node] if old.from_ns < span.from_ns and old.replicaof]
    return before[-1].replicaof if before else span.node


def _two_masters(history: History) -> list[Finding]:
    """Find two active masters with slots in one shard for longer than propagation takes."""

    def same_shard(part: Overlap) -> bool:
        return shard_of(history, part.one) == shard_of(history, part.other)

    return [
        Finding(Severity.ERROR, FindingCode.TWO_MASTERS, low, high, from_ns, to_ns, 1, (to_ns - from_ns) // 1_000_000,
                f"{short(low)} and {short(high)} were both masters with slots of one shard for"
                f" {(to_ns - from_ns) // 1_000_000} ms", (run[0].other.first_ref, run[-1].other.last_ref))
        for low, high, run, from_ns, to_ns in _lasting(
            history, lambda span: bool(history.own_slots(span)), same_shard, history.thresholds.lasting_ns
        )
    ]  # fmt: skip


def _chains(history: History) -> list[Finding]:
    """Find replicas of replicas; R66 resolves them, so they must not last."""
    found = []
    for low, high, run, from_ns, to_ns in _lasting(
        history,
        lambda span: bool(span.replicaof),
        lambda part: part.other.node == part.one.replicaof or part.one.node == part.other.replicaof,
        history.thresholds.lasting_ns,
    ):
        one, other, length_ns = run[0].one, run[0].other, to_ns - from_ns
        is_loop = one.replicaof == other.node and other.replicaof == one.node
        replica, master = (one.node, other.node) if one.replicaof == other.node else (other.node, one.node)
        text = f"{short(replica)} replicates the replica {short(master)}"
        if is_loop:
            text = f"{short(low)} and {short(high)} replicate each other"
        found.append(
            Finding(Severity.ERROR if is_loop or length_ns > history.thresholds.grave_ns else Severity.WARNING,
                    FindingCode.REPLICA_LOOP if is_loop else FindingCode.REPLICA_CHAIN, replica, master, from_ns, to_ns, 1,
                    length_ns // 1_000_000, f"{text} for {length_ns // 1_000_000} ms", (one.first_ref, run[-1].other.last_ref))
        )  # fmt: skip
    return found


def _suspicions(history: History) -> list[Finding]:
    """Find nodes marked PFAIL by some observers without consequence: slow or badly connected."""
    by_node: dict[str, list[tuple[int, int, int, int]]] = {}
    for one in find_episodes(history):
        if not is_failure(history, one):
            end_ns = history.last_ns if one.to_ns is None else one.to_ns
            doubters = len({spell.observer for spell in one.spells})
            by_node.setdefault(one.subject, []).append((one.from_ns, end_ns, doubters, one.spells[0].ref))
    return [
        Finding(Severity.NOTE, FindingCode.SUSPECTED, node, "", spells[0][0], spells[-1][1], len(spells),
                max(one[1] - one[0] for one in spells) // 1_000_000,
                f"{short(node)} was held to be PFAIL {plural(len(spells), 'time')} by up to {max(one[2] for one in spells)}"
                " observers, and FAIL was not agreed", tuple(one[3] for one in spells if one[3] >= 0))
        for node, spells in by_node.items()
    ]  # fmt: skip
