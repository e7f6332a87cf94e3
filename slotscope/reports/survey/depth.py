"""Of a survey, what is below totals: how long keys lie untouched, and what would save memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster_core.advice.changes import OF_ALL_KEYS, Kind
from cluster_core.load.sampling import HITS_MIN, Estimate, GroupEstimate, Part, estimate_all, estimate_groups
from slotscope.reports.keyspace.savings import NAMES
from slotscope.runtime import text
from slotscope.servers.survey import Survey

if TYPE_CHECKING:
    from slotscope.sources.keys.value_sample import Savings

UNTOUCHED_DAYS: Final = (1, 7, 30)
DAY_S: Final = 86_400
MODEL_SHARE_MAX: Final = 0.1
"""A model that is so far from what MEMORY USAGE tells is worth a word."""


class UntouchedFigures(NamedTuple):
    """Memory of keys that nobody has touched for *days*; None if too few of them were drawn for a figure."""

    days: int
    keys: Estimate | None
    memory_bytes: Estimate | None


class SavingFigures(NamedTuple):
    """A change that would save memory: those *counted* add up, none of their bytes twice."""

    change: str
    subject: bytes
    saved_bytes: Estimate
    keys: int
    how: str
    risk: str
    undo: str
    counted: bool


class SavingsFigures(NamedTuple):
    """What changes would save, from *values* that were read."""

    changes: Sequence[SavingFigures]
    memory_bytes: Estimate
    values: int


def untouched(parts: Sequence[Part]) -> list[UntouchedFigures]:
    """Estimate what nobody touched for each of `UNTOUCHED_DAYS`; nothing where no master says."""
    if not any(draw.idle_s is not None for part in parts for draw in part.draws):
        return []
    found = estimate_groups(parts, lambda draw: [days for days in UNTOUCHED_DAYS if (draw.idle_s or 0) >= days * DAY_S])
    certain = not estimate_all(parts).memory_bytes.error
    figures = []
    for days in UNTOUCHED_DAYS:
        group = found.get(days)
        if group is None:
            nothing = Estimate(0.0, 0.0) if certain else None
            figures.append(UntouchedFigures(days, nothing, nothing))
        elif certain or group.hits >= HITS_MIN:
            figures.append(UntouchedFigures(days, group.keys, group.memory_bytes))
        else:
            figures.append(UntouchedFigures(days, None, None))
    return figures


def savings(
    survey: Survey, separators: bytes, prefixes: Mapping[bytes, GroupEstimate]
) -> tuple[SavingsFigures | None, list[str]]:
    """What would save memory, and notes on how near that is, or why it is not known; few large keys of one of *prefixes* make its saving skewed.

    Of changes to all keys what is skewed is not known, and in the notes.
    """
    whys = [f"{one.checkup.address}: {one.valueless}" for one in survey.masters if one.valueless and one.keys]
    if whys:
        return None, [f"what would save memory is not known: {whys[0]}; slotscope advise reads dumps"]
    if not any(part.draws for part in survey.parts):
        return None, []
    from slotscope.sources.keys.value_sample import NoSavingsError, Sampled, estimate_savings

    try:
        found = estimate_savings(
            [
                Sampled(
                    part, _server(master.checkup.info), master.checkup.info.get("mem_allocator", ""), bool(master.slots)
                )
                for master in survey.masters
                for part in master.parts
            ],
            separators,
        )
    except NoSavingsError as error:
        return None, [f"what would save memory is not known: {error}; slotscope advise reads dumps"]
    whole = estimate_all(survey.parts)

    def told(saved: Estimate, subject: bytes = b"", kind: Kind | None = None) -> Estimate:
        if kind in OF_ALL_KEYS:
            return saved
        skewed = prefixes.get(subject, whole).memory_bytes.skewed
        return saved._replace(skewed=bool(saved.error) and skewed)

    changes = [
        SavingFigures(
            NAMES.get(one.change.kind, one.change.kind), one.change.subject, told(one.saved_bytes, one.change.subject, one.change.kind),
            one.change.keys, one.change.how, one.change.risk, one.change.undo, one.change.counted,
        )
        for one in found.changes
    ]  # fmt: skip
    figures = SavingsFigures(changes, told(found.now_bytes), found.values)
    return figures, list(_notes(found, survey))


def _notes(found: Savings, survey: Survey) -> Iterable[str]:
    values, unread = found.values, found.unread
    keys = sum(master.keys for master in survey.masters)
    more = f"; {text.plural(unread, 'larger key')} count as now" if unread else ""
    yield (
        f"what would save memory is from {text.plural(values, 'value')} read by DUMP ({text.percent(values, keys)} of the keys){more};"
        " equal values are not sought: slotscope advise reads all of a dump"
    )
    if found.unclear:
        yield f"{text.plural(found.unclear, 'further change')} may save something, but less than the error"
    if found.unknown:
        named = "; ".join(f"{NAMES.get(one.kind, one.kind)} {one.subject.decode()}" for one in found.unknown)
        yield f"not known is what these would save, since few of the keys read make up most of it: {named}; slotscope advise reads all of a dump"
    if abs(found.model_share - 1) > MODEL_SHARE_MAX:
        yield f"of these keys the memory model says {text.ratio(found.model_share)} what MEMORY USAGE tells: take savings with care"


def _server(info: Mapping[str, str]) -> str:
    """Family and version, as a dump names its writer."""
    valkey = info.get("valkey_version")
    return f"valkey {valkey}" if valkey else f"redis {info.get('redis_version', '')}"
