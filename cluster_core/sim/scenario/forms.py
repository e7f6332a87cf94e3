"""The words of a scenario: each action and condition as a row of kinds, and how each kind is read.

A kind that begins with ``=`` is a fixed word (several with ``|``), the others are in `KINDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster_core.slots.key_slot import SLOT_COUNT

_TIME: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)(us|ms|s|m)")
_UNIT_US: Final = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000}
_TIME_US_MAX: Final = 7 * 86_400 * 1_000_000
_RANGE: Final = re.compile(r"(\d+)(?:(\.\.)(\d*))?")
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
NUMBER_MAX: Final = 10**15


class Word(NamedTuple):
    """A word of a line and its column, counted from 1."""

    text: str
    column: int


class WrongWordError(ValueError):
    """A word that cannot stand where it stands."""

    def __init__(self, reason: str, column: int) -> None:
        self.column = column
        super().__init__(reason)


def words_of(line: str) -> list[Word]:
    """Split a line at spaces, but not within double quotes; a ``#`` outside of them ends it.

    >>> [word.text for word in words_of('at 1s command M1 SET "a b" # why')]
    ['at', '1s', 'command', 'M1', 'SET', 'a b']
    """
    found = []
    for match in _WORD.finditer(line):
        if match[2] is not None and match[2].startswith("#"):
            break
        text = match[1] if match[1] is not None else match[2]
        found.append(Word(text, match.start() + 1))
    return found


def read_time_us(text: str) -> int:
    """Microseconds of ``250ms``, ``1.5s``, ``2m``; raises ValueError.

    >>> read_time_us("1.5s")
    1500000
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time such as 250ms, 1.5s or 2m")
    value = round(float(match[1]) * _UNIT_US[match[2]])
    if abs(value) > _TIME_US_MAX:
        raise ValueError(f"{text[:40]!r} is more than a week")
    return value


def read_range(text: str) -> tuple[int, int]:
    """``3``, ``1..4`` or ``2..`` as the least and the greatest number.

    >>> read_range("3"), read_range("1..4"), read_range("2..")
    ((3, 3), (1, 4), (2, 1000000000000000))
    """
    match = _RANGE.fullmatch(text)
    if match is None or len(text) > 40:
        raise ValueError(f"{text[:40]!r} is no range such as 3, 1..4 or 2..")
    least = int(match[1])
    most = least if match[2] is None else int(match[3]) if match[3] else NUMBER_MAX
    if most < least:
        raise ValueError(f"{text!r} ends before it begins")
    return least, most


def read_number(text: str) -> float:
    """A number that is not negative."""
    if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text):
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)


def read_share(text: str) -> float:
    """A number from 0 to 1."""
    value = read_number(text)
    if value > 1:
        raise ValueError(f"{text!r} is more than 1")
    return value


def read_count(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def read_slot(text: str) -> int:
    """A slot."""
    slot = read_count(text)
    if slot >= SLOT_COUNT:
        raise ValueError(f"slot {slot} is not between 0 and {SLOT_COUNT - 1}")
    return slot


def read_yes(text: str) -> bool:
    """``yes`` or ``no``."""
    if text not in ("yes", "no"):
        raise ValueError(f"{text[:40]!r} is neither yes nor no")
    return text == "yes"


KINDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "time": read_time_us,
    "range": read_range,
    "number": read_number,
    "share": read_share,
    "count": read_count,
    "slot": read_slot,
    "text": str,
}
"""Kinds beside ``node`` and ``nodes`` (names), and ``rest`` (all other words)."""


def match_form(
    form: str, words: Sequence[Word], end: int, find: Callable[[str], tuple[str, ...]], first: tuple[str, ...] = ()
) -> tuple[Any, ...]:
    """The values of *words* under *form*; *find* resolves names.  Raises WrongWordError where they part."""
    values: list[Any] = []
    kinds = form.split()
    for number, kind in enumerate(kinds):
        if kind == "rest":
            return (*values, tuple(word.text for word in words[number:]))
        if number >= len(words):
            raise WrongWordError(f"{_said(kind)} is missing", end)
        values += _read(kind, words[number], find, values)
    if len(words) > len(kinds):
        raise WrongWordError(f"{words[len(kinds)].text!r} is too much", words[len(kinds)].column)
    return tuple(values)


def _read(kind: str, word: Word, find: Callable[[str], tuple[str, ...]], before: Sequence[Any]) -> list[Any]:
    if kind.startswith("="):
        choices = kind[1:].split("|")
        if word.text not in choices:
            raise WrongWordError(f"{word.text[:40]!r} where {_said(kind)} should be", word.column)
        return [word.text] if len(choices) > 1 else []
    try:
        if kind not in ("node", "nodes"):
            return [KINDS[kind](word.text)]
        names = find(word.text)
    except ValueError as error:
        raise WrongWordError(str(error), word.column) from error
    if word.text == "others":
        names = tuple(name for name in names if not any(isinstance(b, tuple) and name in b for b in before))
    if kind == "node" and len(names) != 1:
        raise WrongWordError(f"{word.text!r} is {len(names)} nodes, one is wanted", word.column)
    return [names[0] if kind == "node" else names]


def _said(kind: str) -> str:
    return kind[1:].replace("|", " or ") if kind.startswith("=") else f"a {kind}"


def match_any(
    forms: Iterable[str], words: Sequence[Word], end: int, find: Callable[[str], tuple[str, ...]]
) -> tuple[str, tuple[Any, ...]]:
    """The form that fits *words* and its values; raises WrongWordError of the form that went furthest."""
    furthest: WrongWordError | None = None
    for form in forms:
        try:
            return form, match_form(form, words, end, find)
        except WrongWordError as error:
            if furthest is None or error.column > furthest.column:
                furthest = error
    raise furthest if furthest is not None else WrongWordError("nothing fits", end)
