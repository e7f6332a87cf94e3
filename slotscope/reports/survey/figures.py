"""Figures of a survey: the verdict in one sentence, and tables of the largest keys, slots and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cluster_core.incidents.symptoms import Symptom
from cluster_core.kinds import Severity
from cluster_core.load.sampling import (
    HITS_MIN,
    Estimate,
    GroupEstimate,
    Part,
    SampledKey,
    biggest,
    chance_of_a_key,
    estimate_all,
    estimate_groups,
    estimate_slots,
    longest_idle,
    most_used,
    prefixes,
    without_only_children,
)
from cluster_core.slots.key_slot import SLOT_COUNT, hash_tag, key_slot
from slotscope.reports.records import Row
from slotscope.runtime import text
from slotscope.servers.measuring import SAMPLES
from slotscope.servers.survey import Master, Survey

PREFIX_DEPTH: Final = 3
LISTED: Final = 20
"""Rows of each list in JSON; the terminal shows fewer."""
UNEVEN: Final = 1.2
"""A master above this multiple of the mean is uneven."""
OUTSTANDING: Final = 3.0
"""A slot above this multiple of the mean is listed."""
UNTOUCHED_DAYS: Final = (1, 7, 30)
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Overview:
    """The figures of a survey; estimates are None where too few keys were sampled.

    Of a master *used_memory* comes from INFO; of a slot *keys* are counted.
    """

    verdict: str
    symptoms: Sequence[Symptom]
    nodes: int
    keys: int
    memory_bytes: Estimate | None
    masters: Sequence[Row]
    slots: Sequence[Row]
    biggest_keys: Sequence[Row]
    prefixes: Sequence[Row]
    hash_tags: Sequence[Row]
    most_used_keys: Sequence[Row]
    idlest_keys: Sequence[Row]
    untouched: Sequence[Row]
    notes: Sequence[str]
    seconds: float
    rate: float | None


def overview(survey: Survey, *, separators: str) -> Overview:
    """Return the figures of *survey*; prefixes end in one of *separators*, the longest has `PREFIX_DEPTH` of them."""
    parts = survey.parts
    marks = separators.encode()
    masters = [_master(master, survey) for master in survey.masters]
    slots = _memory_by_slot(parts) if any(m.slots for m in survey.masters) else {}
    groups = estimate_groups(parts, lambda draw: prefixes(draw.key, marks, PREFIX_DEPTH))
    tags = estimate_groups(parts, lambda draw: () if (tag := hash_tag(draw.key)) is None else (tag,))
    heaviest, heaviest_tags, cold = (
        _heaviest(without_only_children(groups), survey),
        _heaviest(tags, survey),
        untouched(parts),
    )
    estimates = [master.memory_bytes for master in masters] + [days.memory_bytes for days in cold]
    shown = [estimate for estimate in estimates if estimate is not None]
    shown += [group.memory_bytes for group in (*heaviest, *heaviest_tags)]
    return Overview(
        _verdict(survey, masters),
        survey.symptoms,
        len(survey.checkups),
        sum(master.keys for master in survey.masters),
        estimate_all(parts).memory_bytes if parts else None,
        masters,
        _outstanding_slots(survey, slots),
        [_key(draw, part.master) for part, draw in biggest(parts, LISTED)],
        heaviest,
        heaviest_tags,
        [_key(draw, part.master) for part, draw in most_used(parts, LISTED)],
        [_key(draw, part.master) for part, draw in longest_idle(parts, LISTED)],
        cold,
        list(_notes(survey, masters, skewed=any(estimate.skewed for estimate in shown))),
        survey.seconds,
        survey.rate,
    )


def _master(master: Master, survey: Survey) -> Row:
    checkup = master.checkup
    return Row(
        address=checkup.address,
        slots=len(master.slots),
        keys=master.keys,
        memory_bytes=estimate_all(master.parts).memory_bytes if master.parts or not master.keys else None,
        used_memory=checkup.number("used_memory"),
        maxmemory=checkup.number("maxmemory"),
        commands_per_s=survey.commands_per_s.get(checkup.address),
        drawn=sum(part.measured for part in master.parts),
        drawn_from=tuple(dict.fromkeys(part.sampled for part in master.parts)),
        all_keys=all(part.is_measured for part in master.parts),
        not_drawn=master.unsampled,
    )


def _verdict(survey: Survey, masters: Sequence[Row]) -> str:
    kind = "cluster" if any(checkup.topology is not None for checkup in survey.checkups) else "server"
    errors = [symptom.text for symptom in survey.symptoms if symptom.severity is Severity.ERROR]
    warnings = sum(symptom.severity is Severity.WARNING for symptom in survey.symptoms)
    if errors:
        more = f" (and {text.plural(len(errors) - 1, 'more error')})" if len(errors) > 1 else ""
        health = f"The {kind} is not healthy: {errors[0]}{more}"
    elif warnings:
        health = f"The {kind} serves, with {text.plural(warnings, 'warning')}"
    else:
        health = f"The {kind} is healthy"
    is_whole = kind == "server" or sum(master.slots for master in masters) == SLOT_COUNT
    return f"{health}; {_evenness(masters, '' if is_whole else ' on the masters that answer')}."


def _evenness(masters: Sequence[Row], without: str) -> str:
    loaded = [master for master in masters if master.keys]
    if not loaded:
        return "it holds no keys"
    keys = text.plural(sum(master.keys for master in masters), "key")
    if len(masters) < 2:
        return f"it holds {keys}"
    by_memory = [master.memory_bytes for master in masters if master.memory_bytes is not None]
    if len(by_memory) == len(masters):
        weights = by_memory
        measure = "memory of keys" if all(master.all_keys for master in masters) else "memory of keys (estimated)"
    else:
        weights, measure = [Estimate(float(master.keys), 0.0) for master in masters], "number of keys"
    heaviest = max(weights)
    mean = sum(weight.value for weight in weights) / len(weights)
    least, most = ((heaviest.value + sign * heaviest.error) / mean for sign in (-1, 1))
    is_even = most < UNEVEN and not any(weight.skewed for weight in weights)
    even = "uneven" if least >= UNEVEN else "even" if is_even else "even within the error of the estimate"
    worst = masters[weights.index(heaviest)]
    return f"its load of {keys}{without} is {even}: {worst.address} holds {text.ratio(heaviest.value / mean)} the mean {measure}"


def _memory_by_slot(parts: Sequence[Part]) -> dict[int, Estimate]:
    """Return the memory of slots with enough measured keys."""
    measured = estimate_slots(parts)
    return {
        s: estimate.memory_bytes
        for s, estimate in measured.items()
        if estimate.hits >= HITS_MIN or not estimate.memory_bytes.error
    }


def _outstanding_slots(survey: Survey, measured: Mapping[int, Estimate]) -> list[Row]:
    """Slots far above the mean in keys, memory or processor time, the farthest first."""
    owners = {slot: master for master in survey.masters for slot in master.slots}
    counts = {slot: count for master in survey.masters for slot, count in master.counts.items()}
    keys = {slot: count.keys for slot, count in counts.items() if count.keys}
    cpu = {slot: spent for master in survey.masters for slot, spent in master.cpu_usec.items()}
    counted = {
        slot: Estimate(count.memory_bytes, 0.0) for slot, count in counts.items() if count.memory_bytes is not None
    }
    memory = counted or measured
    key_sum, cpu_sum = sum(keys.values()), sum(cpu.values())
    whole = (
        sum(estimate.value for estimate in counted.values())
        if counted
        else estimate_all(survey.parts).memory_bytes.value
    )
    certain = {slot: estimate.value - estimate.error for slot, estimate in memory.items()}
    farness = {
        slot: max(
            keys.get(slot, 0) * len(keys) / max(key_sum, 1),
            cpu.get(slot, 0) * len(cpu) / max(cpu_sum, 1),
            certain.get(slot, 0.0) * (len(keys) or len(measured)) / whole if whole else 0.0,
        )
        for slot in owners
    }
    farthest = sorted(
        (slot for slot in owners if farness[slot] >= OUTSTANDING), key=lambda slot: (-farness[slot], slot)
    )
    return [
        Row(
            slot=slot,
            master=owners[slot].checkup.address,
            keys=counts[slot].keys if slot in counts else None,
            memory_bytes=memory.get(slot),
            cpu_share=cpu.get(slot, 0) / cpu_sum if cpu else None,
        )
        for slot in farthest[:LISTED]
    ]


def _key(draw: SampledKey, master: str) -> Row:
    figures = {name: getattr(draw, name) for name in ("key", "type", "memory_bytes", "elements", "frequency", "idle_s")}
    return Row(master=master, slot=key_slot(draw.key), **figures)


def _heaviest(groups: Mapping[bytes, GroupEstimate], survey: Survey) -> list[Row]:
    """Groups by memory; those drawn too seldom for a figure are left out, unless all keys were measured."""
    all_keys = all(part.whole for part in survey.parts)
    known = [
        (name, estimate)
        for name, estimate in groups.items()
        if estimate.hits >= HITS_MIN or (all_keys and estimate.hits > 1)
    ]
    known.sort(key=lambda row: (-row[1].memory_bytes.value, row[0]))
    return [Row(name=name, **estimate._asdict()) for name, estimate in known[:LISTED]]


def _notes(survey: Survey, masters: Sequence[Row], *, skewed: bool) -> Iterable[str]:
    parts = survey.parts
    pace = "half of each server's time" if survey.rate is None else f"{survey.rate:g} commands a second to a node"
    busiest = max(survey.sent.values(), default=0)
    yield f"measured for {survey.seconds:.0f} s with at most {pace}: up to {busiest:,} read-only commands a node"
    measured = sum(part.measured for part in parts)
    if parts and all(part.is_measured for part in parts):
        yield f"all {measured:,} keys were measured with MEMORY USAGE ({SAMPLES:,} elements of a large value)"
    elif parts:
        yield (
            f"{measured:,} keys were measured with MEMORY USAGE: large collections and a random sample;"
            " ± is the 95 % interval; raise --seconds to measure more, --psync reads all keys"
        )
        if skewed:
            yield (
                "* few large keys dominate the sample: the true figure is outside the interval more often, mostly above it"
            )
        chance = text.percent(round(chance_of_a_key(parts) * 1_000_000), 1_000_000)
        yield f"each key was sampled with a chance of at least {chance}: larger keys than those listed may exist"
    replicas = {address for master in masters for address in master.drawn_from if address != master.address}
    if replicas:
        yield (
            f"keys were measured at {text.plural(len(replicas), 'replica')}; access data (OBJECT) comes from their masters"
        )
    yield from (f"{master.address}: memory not estimated: {master.not_drawn}" for master in masters if master.not_drawn)
    for master in survey.masters:
        measured_all = bool(master.parts) and all(part.is_measured for part in master.parts)
        if master.slots and len(master.counts) < len(master.slots) and not measured_all:
            missing = len(master.slots) - len(master.counts)
            yield f"{master.checkup.address}: keys of {text.plural(missing, 'slot')} were not counted: no time left, or no permission"
    counts = [count for master in survey.masters for count in master.counts.values()]
    if not any(master.cpu_usec for master in survey.masters) and any(m.slots for m in survey.masters):
        is_counted = any(count.cpu_usec is not None for count in counts)
        idle = "no command of a client used a slot while this was measured"
        yield f"no CPU time per slot: {idle if is_counted else 'enable cluster-slot-stats-enabled (Valkey 8, Redis 8.2)'}"
    if survey.masters and not any(draw.frequency is not None for part in parts for draw in part.draws):
        yield "no hot keys: only servers with an LFU maxmemory-policy count accesses"
    if survey.masters and not any(draw.idle_s is not None for part in parts for draw in part.draws):
        yield "no idle keys: servers with an LFU maxmemory-policy keep no idle times"
    if any(master.cpu_usec for master in survey.masters):
        yield "CPU time per slot was measured before the keys"
    yield f"command rates cover {survey.window_s:.1f} s and exclude these commands"


def untouched(parts: Sequence[Part]) -> list[Row]:
    """Estimate the memory of untouched keys for each of `UNTOUCHED_DAYS`; empty if no master has idle times."""
    if not any(draw.idle_s is not None for part in parts for draw in part.draws):
        return []
    groups = estimate_groups(
        parts, lambda draw: [days for days in UNTOUCHED_DAYS if (draw.idle_s or 0) >= days * DAY_S]
    )
    certain = not estimate_all(parts).memory_bytes.error
    nothing = Estimate(0.0, 0.0) if certain else None
    figures = []
    for days in UNTOUCHED_DAYS:
        group = groups.get(days)
        is_known = group is not None and (certain or group.hits >= HITS_MIN)
        keys, size = (group.keys, group.memory_bytes) if group is not None and is_known else (None, None)
        if group is None:
            keys = size = nothing
        figures.append(Row(days=days, keys=keys, memory_bytes=size))
    return figures
