"""Read and write scenario files (syntax: `docs/design/simulator.md`).

A line is a heading (`title`, `rules`, `cluster`, `settings`, `network`, `seed`, `hide`, `converges`, `breaks`), a step
(``at``, ``by``, ``until`` and a time, or ``then``), ``end`` and a time, or after it ``expect``. The trace of the last
run follows a line of ``---``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from cluster_core.errors import ClusterCoreError
from cluster_core.gossip.profile import PROFILES
from cluster_core.node.state import NodeSettings
from cluster_core.sim.host import Path
from cluster_core.sim.layouts import Layout, LayoutError, check_layout, names_of
from cluster_core.sim.scenario.stage import ACTIONS, CONDITIONS
from cluster_core.slots.key_slot import SLOT_COUNT


class ScenarioError(ClusterCoreError, ValueError):
    """An invalid scenario; *line* and *column* count from 1."""

    def __init__(self, reason: str, *, line: int, column: int = 1, source: str = "<scenario>") -> None:
        self.reason, self.line, self.column, self.source = reason, line, column, source
        super().__init__(f"{source}:{line}:{column}: {reason}")


@dataclass(frozen=True, slots=True)
class Step:
    """One line: an action or expectation with a time.

    *when*: ``at`` (run, or must be true then), ``then`` (run once the previous step is true), ``by`` (must become true
    before) or ``until`` (must be true since the previous step). *what*: the form of an action or condition; *values*:
    its arguments.
    """

    when: str
    time_us: int
    what: str
    values: tuple[Any, ...]
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, network, seed, steps, expectations, and the resulting trace (empty: unknown)."""

    title: str = ""
    rules: tuple[str, ...] = ()
    layout: Layout = Layout()  # noqa: RUF009 - frozen
    settings: NodeSettings = NodeSettings(node_timeout_ms=2000)  # noqa: RUF009 - frozen
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Differing settings of single nodes, by name."""
    path: Path = field(default_factory=Path)
    seed: int = 1
    hidden: tuple[str, ...] = ()
    """Trace lines with one of these texts are omitted."""
    steps: tuple[Step, ...] = ()
    end_us: int = 10_000_000
    after: tuple[Step, ...] = ()
    """Expectations at the end."""
    converges: bool = True
    """All views must be equal at the end."""
    breaks: tuple[str, ...] = ()
    """Rules that it violates on purpose, to test the checkers."""
    trace: tuple[str, ...] = ()


_TIME: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)(us|ms|s|m)")
_UNIT_US: Final = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000}
_TIME_US_MAX: Final = 7 * 86_400 * 1_000_000
_RANGE: Final = re.compile(r"(\d+)(?:(\.\.)(\d*))?")
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
NUMBER_MAX: Final = 10**15


class Word(NamedTuple):
    """A word and its column, from 1."""

    text: str
    column: int


class WrongWordError(ValueError):
    """An unexpected word."""

    def __init__(self, reason: str, column: int) -> None:
        self.column = column
        super().__init__(reason)


def words_of(line: str) -> list[Word]:
    """Split a line at blanks outside double quotes, up to a ``#``.

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
    """Parse ``250ms``, ``1.5s``, ``2m`` to µs; raises ValueError.

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
    """Parse ``3``, ``1..4`` or ``2..`` to minimum and maximum.

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
    """Parse a non-negative number."""
    if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text):
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)


def read_share(text: str) -> float:
    """Parse a number from 0 to 1."""
    value = read_number(text)
    if value > 1:
        raise ValueError(f"{text!r} is more than 1")
    return value


def read_count(text: str) -> int:
    """Parse an integer."""
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def read_slot(text: str) -> int:
    """Parse a slot."""
    slot = read_count(text)
    if slot >= SLOT_COUNT:
        raise ValueError(f"slot {slot} is not between 0 and {SLOT_COUNT - 1}")
    return slot


def read_yes(text: str) -> bool:
    """Parse ``yes`` or ``no``."""
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
"""Kinds of values other than ``node`` and ``nodes`` (names) and ``rest`` (all other words)."""


def match_form(
    form: str, words: Sequence[Word], end: int, find: Callable[[str], tuple[str, ...]], first: tuple[str, ...] = ()
) -> tuple[Any, ...]:
    """Return the values of *words* by *form*; *find* resolves names. Raises WrongWordError at the first mismatch."""
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
    """Return the matching form and its values; raises WrongWordError of the longest match."""
    furthest: WrongWordError | None = None
    for form in forms:
        try:
            return form, match_form(form, words, end, find)
        except WrongWordError as error:
            if furthest is None or error.column > furthest.column:
                furthest = error
    raise furthest if furthest is not None else WrongWordError("nothing fits", end)


LINES_MAX: Final = 10_000
LINE_CHARS_MAX: Final = 1000
HEADINGS: Final = frozenset(["title", "rules", "cluster", "settings", "network", "seed", "hide", "converges", "breaks"])
RULE: Final = "---"


def _profile(text: str) -> Any:
    if text not in PROFILES:
        raise ValueError(f"no profile {text[:40]!r}; there are {', '.join(PROFILES)}")
    return PROFILES[text]


def _ms(text: str) -> int:
    time_us = read_time_us(text)
    if time_us < 0:
        raise ValueError(f"{text[:40]!r} is negative")
    return time_us // 1000


SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "profile": ("profile", _profile),
    "node-timeout": ("node_timeout_ms", _ms),
    "validity-factor": ("validity_factor", read_count),
    "migration-barrier": ("migration_barrier", read_count),
    "replica-migration": ("allow_replica_migration", read_yes),
    "full-coverage": ("require_full_coverage", read_yes),
    "no-failover": ("no_failover", read_yes),
    "manual-failover-timeout": ("manual_failover_ms", _ms),
    "blacklist-ttl": ("blacklist_ms", _ms),
    "repl-ping-period": ("repl_ping_period_s", read_count),
    "hostname": ("hostname", str),
    "nodename": ("nodename", str),
}
"""Settings: name in scenarios, field of `NodeSettings`, parser."""
CLUSTER: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    name: (name, read_count) for name in ("masters", "replicas", "zones", "spares")
}
NETWORK: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "delay": ("delay_us", read_time_us),
    "jitter": ("jitter_us", read_time_us),
    "loss": ("loss", read_share),
}


def read_scenario(text: str, source: str = "<scenario>") -> Scenario:
    """Parse a scenario; raises ScenarioError with line and column."""
    body, _, trace = text.partition(f"\n{RULE}\n")
    lines = body.split("\n")
    if len(lines) > LINES_MAX:
        raise ScenarioError(f"more than {LINES_MAX} lines", line=LINES_MAX, source=source)
    reader = _Reader(source)
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CHARS_MAX:
            raise ScenarioError(
                f"more than {LINE_CHARS_MAX} characters", line=number, column=LINE_CHARS_MAX, source=source
            )
        words = words_of(line)
        if not words:
            continue
        try:
            reader.take(words, number, line)
        except WrongWordError as error:
            raise ScenarioError(str(error), line=number, column=error.column, source=source) from error
    if not reader.ended:
        raise ScenarioError("no line with the end", line=len(lines), source=source)
    return replace(reader.scenario, trace=tuple(trace.rstrip("\n").split("\n")) if trace.strip() else ())


def with_trace(text: str, lines: tuple[str, ...]) -> str:
    """Return *text* with *lines* as its trace."""
    body = text.partition(f"\n{RULE}\n")[0].rstrip("\n")
    return "\n".join((body, RULE, *lines, ""))


def said(words: list[Word]) -> str:
    """Return the line without its comment."""
    return " ".join(f'"{word.text}"' if " " in word.text or not word.text else word.text for word in words)


class _Reader:
    """Parser state: the scenario so far, with a method per kind of line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.scenario = Scenario()
        self.names: dict[str, tuple[str, ...]] = {}
        self.time_us = 0
        self.ended = False

    def take(self, words: list[Word], line: int, text: str) -> None:
        """Parse one line; raises WrongWordError."""
        head = words[0]
        end = len(text.rstrip()) + 1
        if head.text in ("at", "by", "until"):
            self._step(words, line, text, end)
        elif head.text == "then":
            self._then(words, line, text, end)
        elif head.text == "end":
            if self.ended:
                raise WrongWordError("a second end", head.column)
            self._expect_words(words, 2, end)
            end_us = self._time(words[1])
            self.scenario, self.ended = replace(self.scenario, end_us=end_us), True
        elif head.text == "expect":
            if not self.ended:
                raise WrongWordError("expect stands behind the end, or behind at, by or until and a time", head.column)
            form, values = self._condition(words[1:], end)
            step = Step("at", self.scenario.end_us, form, values, line, said(words))
            self.scenario = replace(self.scenario, after=(*self.scenario.after, step))
        elif head.text in HEADINGS:
            if self.scenario.steps or self.ended:
                raise WrongWordError(f"{head.text} belongs above the first step", head.column)
            self.scenario = self.heading(words, end)
        else:
            raise WrongWordError(f"{head.text[:40]!r} begins no line", head.column)

    def _expect_words(self, words: list[Word], count: int, end: int) -> None:
        if len(words) < count:
            raise WrongWordError(f"nothing behind {words[0].text}", end)
        if len(words) > count:
            raise WrongWordError(f"{words[count].text[:40]!r} is too much", words[count].column)

    def _time(self, word: Word) -> int:
        try:
            time_us = read_time_us(word.text)
        except ValueError as error:
            raise WrongWordError(str(error), word.column) from error
        if time_us < self.time_us:
            raise WrongWordError(f"{word.text} lies before the step above", word.column)
        self.time_us = time_us
        return time_us

    def _step(self, words: list[Word], line: int, text: str, end: int) -> None:
        when = words[0]
        if self.ended:
            raise WrongWordError("a step behind the end", when.column)
        if len(words) < 3:
            raise WrongWordError(f"{when.text} needs a time and what is done or expected", end)
        time_us = self._time(words[1])
        if words[2].text == "expect":
            form, values = self._condition(words[3:], end)
        elif when.text != "at":
            raise WrongWordError(f"{words[2].text[:40]!r} where expect should be", words[2].column)
        else:
            form, values = self._action(words[2:], end)
        step = Step(when.text, time_us, form, values, line, said(words))
        self.scenario = replace(self.scenario, steps=(*self.scenario.steps, step))

    def _then(self, words: list[Word], line: int, text: str, end: int) -> None:
        """Parse a step that follows the previous line's condition."""
        if self.ended or not self.scenario.steps:
            raise WrongWordError("then follows a step", words[0].column)
        if len(words) < 2:
            raise WrongWordError("then what?", end)
        form, values = self._action(words[1:], end)
        step = Step("then", self.time_us, form, values, line, said(words))
        self.scenario = replace(self.scenario, steps=(*self.scenario.steps, step))

    def _condition(self, words: list[Word], end: int) -> tuple[str, tuple[Any, ...]]:
        return match_any(CONDITIONS, words, end, self._find)

    def _action(self, words: list[Word], end: int) -> tuple[str, tuple[Any, ...]]:
        known = [form for form in ACTIONS if form.split()[0] == f"={words[0].text}"]
        if not known:
            raise WrongWordError(f"{words[0].text[:40]!r} is nothing that can be done", words[0].column)
        return match_any(known, words, end, self._find)

    def _find(self, text: str) -> tuple[str, ...]:
        """Return the nodes of a word: names, groups, zones, comma-separated."""
        if not self.names:
            self.names = names_of(self.scenario.layout)
        found: list[str] = []
        for part in text.split(","):
            if part not in self.names:
                raise ValueError(f"no node, zone or group {part[:40]!r}")
            found += [name for name in self.names[part] if name not in found]
        return tuple(found)

    # -- headings ------------------------------------------------------------------------------------------------

    def _pairs(
        self, words: list[Word], known: Mapping[str, tuple[str, Callable[[str], Any]]], end: int
    ) -> dict[str, Any]:
        if not words:
            raise WrongWordError(f"{' or '.join(f'{name}=…' for name in known)} is missing", end)
        values: dict[str, Any] = {}
        for word in words:
            name, equals, value = word.text.partition("=")
            if not equals or name not in known:
                raise WrongWordError(f"{word.text[:40]!r} is none of {', '.join(f'{k}=…' for k in known)}", word.column)
            field, read = known[name]
            try:
                values[field] = read(value)
            except ValueError as error:
                raise WrongWordError(str(error), word.column + len(name) + 1) from error
        return values

    def _cluster(self, words: list[Word], end: int) -> Scenario:
        layout = replace(self.scenario.layout, **self._pairs(words[1:], CLUSTER, end))
        try:
            check_layout(layout)
        except LayoutError as error:
            raise WrongWordError(str(error), words[1].column) from error
        self.names = {}
        return replace(self.scenario, layout=layout)

    def _settings(self, words: list[Word], end: int) -> Scenario:
        names: tuple[str, ...] = ()
        rest = words[1:]
        if rest and rest[0].text == "for":
            if len(rest) < 2:
                raise WrongWordError("for whom?", end)
            try:
                names, rest = self._find(rest[1].text), rest[2:]
            except ValueError as error:
                raise WrongWordError(str(error), rest[1].column) from error
        values = self._pairs(rest, SETTINGS, end)
        if not names:
            return replace(self.scenario, settings=replace(self.scenario.settings, **values))
        special = dict(self.scenario.special)
        for name in names:
            special[name] = {**special.get(name, {}), **values}
        return replace(self.scenario, special=special)

    def _one(self, words: list[Word], end: int, read: Callable[[str], Any]) -> Any:
        """Return the value of a one-word heading."""
        self._expect_words(words, 2, end)
        try:
            return read(words[1].text)
        except ValueError as error:
            raise WrongWordError(str(error), words[1].column) from error

    def heading(self, words: list[Word], end: int) -> Scenario:
        """Return the scenario with a heading applied."""
        scenario, texts = self.scenario, tuple(word.text for word in words[1:])
        match words[0].text:
            case "title":
                return replace(scenario, title=" ".join(texts))
            case "rules":
                return replace(scenario, rules=texts)
            case "cluster":
                return self._cluster(words, end)
            case "settings":
                return self._settings(words, end)
            case "network":
                return replace(scenario, path=Path(**self._pairs(words[1:], NETWORK, end)))
            case "seed":
                return replace(scenario, seed=self._one(words, end, read_count))
            case "hide":
                return replace(scenario, hidden=(*scenario.hidden, *texts))
            case "converges":
                return replace(scenario, converges=self._one(words, end, read_yes))
            case _:
                return replace(scenario, breaks=texts)


def settings_of(scenario: Scenario, name: str) -> NodeSettings:
    """Return the settings of the node *name*."""
    return replace(scenario.settings, **scenario.special.get(name, {}))
