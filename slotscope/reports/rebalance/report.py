"""What a report on a rebalancing plan says, as plain values: filled from the tables, drawn on a terminal and a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster_core.rebalance.plan import PlanVerdict, slot_ranges
from schemas.caveats import Caveat
from slotscope.reports.keyspace.figures import short_names
from slotscope.runtime import text

_UNITS = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True, slots=True)
class Reach:
    """One resource: the heaviest master over its fair share before and after, the *limit*, the proven *floor*.

    One that is not *balanced* is known and only told; its limit is what it would be allowed.
    """

    resource: str
    tolerance: float
    before: float
    after: float
    limit: float
    floor: float
    balanced: bool = True

    @property
    def relaxed(self) -> bool:
        """Whether the limit is higher than the tolerance asks for, because slots cannot be divided."""
        return self.limit > (1 + self.tolerance) * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """Load of one master in one resource; *fair* is 0 for a master that is to hold nothing, *capacity* None if not given."""

    before: float
    after: float
    fair: float
    limit: float
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One master, *shares* by resource; *role* is ``stays``, ``added``, ``drained`` or ``excluded``."""

    node_id: str
    address: str
    zone: str
    role: str
    slots_before: int
    slots_after: int
    ranges_before: int
    ranges_after: int
    shares: Mapping[str, NodeShare]

    def ratio(self, resource: str, *, after: bool) -> float:
        """Its load over its fair share; 0 where it has none."""
        share = self.shares.get(resource)
        if share is None or not share.fair:
            return 0.0
        return (share.after if after else share.before) / share.fair

    @property
    def worst(self) -> float:
        """How far the plan is needed for it: its heaviest resource over its fair share, or what it has to give away."""
        if self.role == "drained" and self.slots_before:
            return float("inf")
        return max((self.ratio(resource, after=False) for resource in self.shares), default=0.0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Slots that go from *source* to *target* in one batch; bytes and keys are None where no source knows them."""

    batch: int
    source: str
    target: str
    slots: tuple[int, ...]
    moved_bytes: int | None
    keys: int | None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The slots as (first, last) pairs."""
        return slot_ranges(self.slots)


@dataclass(frozen=True, slots=True)
class ToleranceLine:
    """What a tolerance would cost; *max_over_mean* of the worst resource; *verdict* is empty where an older table does not say."""

    tolerance: float
    moved: int
    bound: int
    moved_slots: int
    ranges: int
    estimated_s: float
    max_over_mean: float
    verdict: str

    @property
    def missed(self) -> str:
        """What is to be said of its limits where the plan does not keep them, else nothing."""
        kept: dict[str, str] = {PlanVerdict.MOVE: "", PlanVerdict.BALANCED: "", PlanVerdict.IMPOSSIBLE: "cannot be met"}
        return kept.get(self.verdict, "limits missed") if self.verdict else "not known whether met"


@dataclass(frozen=True, slots=True)
class HeavyPart:
    """A hash tag or a key that makes a slot heavy; *share* is of the slot, *pieces* into how many it must be split."""

    hash_tag: bytes | None
    key: bytes | None
    keys: int | None
    size_bytes: int | None
    share: float | None
    pieces: int | None = None


@dataclass(frozen=True, slots=True)
class HeavyLine:
    """A slot that alone is over a limit: *ratio* of a fair share; its keys must lie in *pieces* slots to fit."""

    slot: int
    node_id: str
    resource: str
    ratio: float
    pieces: int
    parts: Sequence[HeavyPart] = ()


@dataclass(frozen=True, slots=True)
class ProofLine:
    """Why one master must give away at least *least* of the cost.

    *over* and *prices* go by resource, *priced* is the sum of their products, *rebate* what is taken off because some slots pay more
    than they weigh; *least* is above *priced* less *rebate* where a search of *nodes* nodes proved more (*kind* ``search``).
    """

    node_id: str
    kind: str
    over: Mapping[str, float]
    prices: Mapping[str, float]
    priced: float
    rebate: float
    least: int
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class JointProof:
    """That all masters together must move *least* of the cost: by *lists* lists of prices, for each of *cases* placements of *slots*."""

    least: int
    lists: int
    cases: int
    slots: int


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """A plan of the same tables; *audited* is the measured max over fair share by resource, *kept* None before an audit.

    *executed* is None where nothing says that a step of it was ever taken.
    """

    plan_id: str
    created_at_ms: int
    verdict: str
    moved: int
    cost: str
    promised: Mapping[str, float]
    audited: Mapping[str, float] = field(default_factory=dict)
    kept: bool | None = None
    executed: str | None = None


@dataclass(frozen=True, slots=True)
class RebalanceReport:
    """One plan.  *moved* and *bound* count the resource *cost*; *hosts_max* figures of the proof are left out of the bound."""

    plan_id: str
    snapshot_id: str
    created_at_ms: int
    verdict: str
    cost: str
    moved: int
    bound: int
    gap: float | None
    moved_slots: int
    ranges_before: int
    ranges_after: int
    batches: int
    estimated_s: float
    state_hash: str
    root: str = "DIR"
    gain_min: float = 0.0
    hosts_max: int = 0
    bad_records: int = 0
    warnings: Sequence[Caveat] = ()
    is_partial: bool = False
    reaches: Sequence[Reach] = ()
    watched: Sequence[Reach] = ()
    nodes: Sequence[PlanNode] = ()
    transfers: Sequence[Transfer] = ()
    tolerances: Sequence[ToleranceLine] = ()
    heavy: Sequence[HeavyLine] = ()
    proof: Sequence[ProofLine] = ()
    joint: JointProof | None = None
    history: Sequence[EarlierPlan] = ()

    @property
    def acts(self) -> bool:
        """Whether anything is to be moved."""
        return self.moved_slots > 0

    @property
    def resources(self) -> list[str]:
        """Names of what is balanced, in the order of the plan."""
        return [reach.resource for reach in self.reaches]

    @property
    def total(self) -> float:
        """All of the cost that the masters hold."""
        return sum(node.shares[self.cost].before for node in self.nodes if self.cost in node.shares)

    @property
    def names(self) -> dict[str, str]:
        """A short name of each node by its id."""
        return short_names(node.node_id for node in self.nodes)


def is_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    return "bytes" in resource


def amount(resource: str, value: float | None) -> str:
    """Return *value* of *resource* with three digits: ``41.2 MB``, ``12.3 k``."""
    if value is None:
        return text.NOTHING
    if is_bytes(resource):
        return text.size(round(value))
    if value < 999.5:
        return text.count(round(value)) if value >= 10 or value == round(value) else f"{value:.1f}"
    unit = 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def resource_words(resource: str) -> str:
    """A resource in words: ``serialized bytes``."""
    return text.printable(resource.replace("_", " "), 40)


def share_text(value: float | None, *, digits: int = 2) -> str:
    """A share as per cent that never rounds something to nothing: ``0.58 %``, ``<0.01 %``."""
    if value is None:
        return text.NOTHING
    least = 10.0**-digits
    if 0 < 100 * value < least:
        return f"<{least:.{digits}f} %"
    return f"{100 * value:.{digits}f} %".replace(f".{'0' * digits} %", " %")


def factor(value: float | None) -> str:
    """A load over its fair share: ``1.020×``; three decimals because tolerances are per cents."""
    if value is None:
        return text.NOTHING
    return f"{value:.3f}×" if value < 100 else f"{value:,.0f}×"


def duration(seconds: float) -> str:
    """Seconds as a person says them: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def ranges_text(ranges: Sequence[tuple[int, int]], limit: int) -> str:
    """Slot ranges as CLUSTER NODES writes them, *limit* at most."""
    words = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:limit]]
    return " ".join(words) + (f" and {text.count(len(ranges) - limit)} more" if len(ranges) > limit else "")


def headline(report: RebalanceReport) -> str:
    """The verdict in a sentence, with what limits it: what was not read, what was not balanced."""
    return " ".join([_verdict(report), *caveats(report)])


def caveats(report: RebalanceReport) -> list[str]:
    """What the verdict does not speak of, a sentence each."""
    over = [reach for reach in report.watched if reach.after > reach.limit]
    held = ", ".join(f"{resource_words(reach.resource)} ends at {factor(reach.after)}" for reach in over)
    return [
        *(["Not balanced: " + held + "."] if held else []),
        *(["Partial: what could not be read is in none of these figures."] if report.is_partial else []),
    ]


def _verdict(report: RebalanceReport) -> str:
    if report.verdict == PlanVerdict.BALANCED:
        return "Nothing to do: every master is within its limits."
    if report.verdict == PlanVerdict.TOO_SMALL:
        return "Nothing to do: limits are broken, but too little would be gained."
    if report.verdict == PlanVerdict.CLOSER and not report.acts:
        return "Nothing moves: not every master is within its limits, and nothing better was found."
    if report.verdict == PlanVerdict.IMPOSSIBLE and not report.acts:
        return "These limits cannot be met together, and nothing that moves would bring masters closer to them."
    share = share_text(report.moved / report.total if report.total else None, digits=1)
    moves = f"Move {text.plural(report.moved_slots, 'slot')}, {amount(report.cost, report.moved)} ({share} of all)"
    if report.verdict == PlanVerdict.MOVE:
        return f"{moves}: every master ends within its limits."
    if report.verdict == PlanVerdict.CLOSER:
        return f"{moves}: masters come closer to their limits, not all reach them."
    if report.verdict == PlanVerdict.IMPOSSIBLE:
        return f"These limits cannot be met together. {moves}: the best found under the least that has to give way."
    return f"{text.printable(report.verdict, 60)}."


def reason(report: RebalanceReport) -> str:
    """Why the verdict is what it is, with its figures."""
    if not report.reaches:
        return "No load was given."
    worst = max(report.reaches, key=lambda reach: reach.before / reach.limit if reach.limit else 0.0)
    now = f"{resource_words(worst.resource)}: the heaviest master holds {factor(worst.before)} its fair share"
    if report.verdict == PlanVerdict.BALANCED:
        return f"Closest to its limit: {now}, {factor(worst.limit)} are allowed. Planned again, it stays so until loads change."
    if report.verdict == PlanVerdict.TOO_SMALL:
        least = (
            f"{share_text(report.gain_min)} of a fair share (gain_min)"
            if report.gain_min
            else "a twentieth of what is over"
        )
        return (
            f"{now}, {factor(worst.limit)} are allowed; the best plan found would lower it by less than {least},"
            " so slots stay where they are and the report does not churn."
        )
    if not report.acts:
        return f"Furthest from its limit: {now}, {factor(worst.limit)} are allowed."
    return f"Furthest from its limit: {now}; afterwards {factor(worst.after)}, {factor(worst.limit)} are allowed."


def next_commands(report: RebalanceReport) -> list[tuple[str, str]]:
    """What to type next, each with what it does."""
    place = f"--root {shell_word(report.root)} --plan {shell_word(report.plan_id)}"
    check = (f"slotscope check-plan {place}", "verify bound, limits and sums from the tables alone")
    if not report.acts:
        return [check]
    return [
        check,
        (f"slotscope execute-plan {place} --cluster HOST:PORT", "dry run: what would be sent, to whom, in which order"),
        (
            f"slotscope execute-plan {place} --cluster HOST:PORT --apply",
            "do it; journalled, can be resumed or rolled back",
        ),
        (f"slotscope audit-plan {place} --cluster HOST:PORT", "afterwards: promised against measured"),
    ]


def remedy(line: HeavyLine) -> str:
    """What would divide a heavy slot, as far as its parts say."""
    tag = next((part for part in line.parts if part.hash_tag is not None), None)
    key = next((part for part in line.parts if part.key is not None and part.hash_tag is None), None)
    if tag is not None and (key is None or (tag.share or 0) >= (key.share or 0)):
        name, pieces = text.shown(tag.hash_tag or b"", 40), tag.pieces or line.pieces
        return (
            f"Split the tag {{{name}}} into {pieces} or more, such as {{{name}:0}} to {{{name}:{pieces - 1}}}:"
            " its keys then lie in as many slots."
        )
    if key is not None:
        return (
            "One key: no hash tag divides it. Split its value over several keys, let replicas or a client cache serve its reads,"
            " or leave it a master of its own."
        )
    return f"Its keys must be spread over {text.plural(line.pieces, 'slot')}; which they are is not known: give dumps or key lists."


def shell_word(word: str) -> str:
    """*word* as one word of a shell; one that cannot be shown is not made a command of."""
    return shlex.quote(word) if word.isprintable() else "..."
