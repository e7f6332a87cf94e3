"""Warnings and findings by how grave they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from cluster_core.kinds import Severity
from slotscope.reports.ink import SEVERITY_STYLES, Ink
from slotscope.runtime import text

CAVEATS_SHOWN = 6
CAVEAT_LENGTH_MAX = 300


class Graded(Protocol):
    """What has a severity, a code and a sentence."""

    @property
    def severity(self) -> str:
        """One of `Severity`."""

    @property
    def code(self) -> str:
        """Which kind it is."""

    @property
    def text(self) -> str:
        """What is wrong."""


def count_by_severity(found: Iterable[Graded]) -> dict[str, int]:
    """How many there are of each severity, the gravest first; severities that none has are left out."""
    counts = Counter(str(one.severity) for one in found)
    return {severity.value: counts[severity] for severity in Severity if counts[severity]}


def gravest_first(found: Iterable[Graded]) -> list[Graded]:
    """*found* by severity, those of one severity in their order."""
    return sorted(found, key=lambda one: list(Severity).index(Severity(one.severity)))


def print_counts(ink: Ink, found: Iterable[Graded], more: str = "") -> None:
    """Print how many of *found*, which are not none, have which severity, and *more*."""
    counts = count_by_severity(found)
    words = ", ".join(text.plural(number, severity) for severity, number in counts.items())
    ink.line(ink.words(f"▲ {words}{more}", SEVERITY_STYLES[next(iter(counts))]))


def print_graded(ink: Ink, found: Sequence[tuple[str, str]], length_max: int, shown: int) -> None:
    """Print severity and words of the first *shown* of *found*, and how many more there are."""
    ink.labelled(
        [
            (ink.words(severity, SEVERITY_STYLES.get(severity, "yellow")), ink.words(text.printable(words, length_max)))
            for severity, words in found[:shown]
        ]
    )
    ink.rest(len(found), shown)


def print_caveats(ink: Ink, caveats: Iterable[Graded]) -> None:
    """Print the gravest of *caveats*."""
    told = [(caveat.severity, caveat.text) for caveat in gravest_first(caveats)]
    print_graded(ink, told, CAVEAT_LENGTH_MAX, CAVEATS_SHOWN)
