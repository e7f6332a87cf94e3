"""How true is a replayed view?  Recorded CLUSTER NODES answers against intervals of belief, row by row and field by
field.

A row is one node in one answer.  It is right when the view at some instant close to the answer shows the same; the
observer's own row may be late by more, as only its next message shows what an operator changed on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from cluster_core.replay.rows import NodeViewRow

SLACK_NS: Final = 250_000_000
"""How far from the answer the view may show the same."""
OWN_SLACK_NS: Final = 1_100_000_000
"""The same for the observer's own row: the longest time between two of its messages."""
FIELDS: Final = ("known", "role", "master", "config_epoch", "slots", "pfail", "fail")


class SampleRow(NamedTuple):
    """One line of a CLUSTER NODES answer, reduced to what is compared."""

    node_id: str
    role: str
    master: str
    config_epoch: int
    slots: str
    pfail: bool
    fail: bool


class Sample(NamedTuple):
    """One CLUSTER NODES answer, asked at *from_ns* and answered by *to_ns*."""

    observer: str
    from_ns: int
    to_ns: int
    rows: tuple[SampleRow, ...]


class Verdict(NamedTuple):
    """One (sample, node) row: *wrong* names the fields that no instant nearby shows as recorded; empty when right."""

    observer: str
    ts_ns: int
    node_id: str
    wrong: tuple[str, ...]
    expected: SampleRow | None
    got: SampleRow | None


def read_sample(observer: str, from_ns: int, to_ns: int, text: str) -> Sample | None:
    """Read a CLUSTER NODES answer (R128); None when it lists a handshake or has a line that is none."""
    rows = []
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) < 8 or not words[6].isdigit():
            return None
        flags = words[2].split(",")
        if "handshake" in flags:
            return None
        slots = " ".join(word for word in words[8:] if not word.startswith("["))
        master = "" if words[3] == "-" else words[3]
        rows.append(_row(words[0], flags, master, int(words[6]), slots))
    return Sample(observer, from_ns, to_ns, tuple(rows))


def sample_row_of(view: NodeViewRow) -> SampleRow:
    """Reduce a view row to what is compared."""
    return _row(view.node_id, view.flags.split(","), view.master_id, view.config_epoch, view.slots)


def _row(node_id: str, flags: list[str], master: str, config_epoch: int, slots: str) -> SampleRow:
    role = "slave" if "slave" in flags else "master" if "master" in flags else ""
    return SampleRow(node_id, role, master, config_epoch, slots, "fail?" in flags, "fail" in flags)


def compare_views(views: Iterable[NodeViewRow], samples: Iterable[Sample]) -> list[Verdict]:
    """Judge every row of every sample against the intervals of its observer."""
    by_observer: dict[str, dict[str, list[NodeViewRow]]] = {}
    for view in views:
        by_observer.setdefault(view.observer, {}).setdefault(view.node_id, []).append(view)
    return [verdict for sample in samples for verdict in _judge(sample, by_observer.get(sample.observer, {}))]


def _judge(sample: Sample, known: dict[str, list[NodeViewRow]]) -> list[Verdict]:
    recorded = {row.node_id: row for row in sample.rows}
    verdicts = []
    for node_id in dict.fromkeys([*recorded, *known]):
        slack_ns = OWN_SLACK_NS if node_id == sample.observer else SLACK_NS
        start_ns, end_ns = sample.from_ns - slack_ns, sample.to_ns + slack_ns
        intervals = known.get(node_id, [])
        near = [
            v for v in intervals if v.valid_from_ns <= end_ns and (v.valid_to_ns is None or v.valid_to_ns >= start_ns)
        ]
        expected = recorded.get(node_id)
        if expected is None:
            if near and _covers(near, start_ns, end_ns):
                verdicts.append(_verdict(sample, node_id, ("known",), None, sample_row_of(near[0])))
            continue
        candidates = [sample_row_of(view) for view in near]
        verdicts.append(
            _verdict(
                sample, node_id, _wrong_fields(expected, candidates), expected, candidates[0] if candidates else None
            )
        )
    return verdicts


def _covers(near: list[NodeViewRow], start_ns: int, end_ns: int) -> bool:
    """Whether the intervals leave no instant of the window free."""
    at = start_ns
    for view in sorted(near, key=lambda view: view.valid_from_ns):
        if view.valid_from_ns > at:
            return False
        if view.valid_to_ns is None:
            return True
        at = max(at, view.valid_to_ns)
    return at >= end_ns


def _wrong_fields(expected: SampleRow, candidates: list[SampleRow]) -> tuple[str, ...]:
    """The fewest fields in which a candidate differs."""
    if not candidates:
        return ("known",)
    differences = [
        tuple(field for field in FIELDS[1:] if getattr(expected, field) != getattr(row, field)) for row in candidates
    ]
    return min(differences, key=len)


def _verdict(
    sample: Sample, node_id: str, wrong: tuple[str, ...], expected: SampleRow | None, got: SampleRow | None
) -> Verdict:
    return Verdict(sample.observer, sample.from_ns, node_id, wrong, expected, got)


class Score(NamedTuple):
    """Rows judged, rows right, and wrong rows by field."""

    rows: int
    right: int
    wrong: dict[str, int]

    @property
    def percent(self) -> float:
        """The share of right rows."""
        return 100.0 * self.right / self.rows if self.rows else 100.0


def score(verdicts: Iterable[Verdict]) -> Score:
    """Sum up verdicts."""
    rows = right = 0
    wrong = dict.fromkeys(FIELDS, 0)
    for verdict in verdicts:
        rows += 1
        right += not verdict.wrong
        for field in verdict.wrong:
            wrong[field] += 1
    return Score(rows, right, wrong)
