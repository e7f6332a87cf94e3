"""Recorded clusters, and the incidents that each part of their evidence shows: packets, logs, polls of some nodes at some interval.

    python -m tests.benches.history_evidence FOLDER…

prints for every recording below the folders which promotions are found from logs, from polls, and from both.  A recording is a folder
with ``logs/PORT.log.gz``, and ``truth.jsonl.gz`` or ``polls.jsonl.gz`` (answers to CLUSTER NODES); ``bus.pcap.gz`` may be there.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.benches.replayed_captures import Told, tell

SECOND_NS = 1_000_000_000


class Evidence(NamedTuple):
    """What is given of a recording: *logs* and *polls* of the first so many nodes (None: of all), polled every *every_s*."""

    packets: bool = False
    logs: int | None = 0
    polls: int | None = 0
    every_s: float = 1.0
    metrics: bool = False

    @property
    def name(self) -> str:
        """In words."""
        parts = ["packets"] if self.packets else []
        parts += [] if self.logs == 0 else ["logs" if self.logs is None else f"{self.logs} logs"]
        nodes = "" if self.polls is None else f" of {self.polls}"
        parts += [] if self.polls == 0 else [f"polls{nodes}/{self.every_s:g}s"]
        return " ".join([*parts, "metrics"] if self.metrics else parts)


class TruePromotion(NamedTuple):
    """A promotion by the winner's own answers, which are *min_ns* and *max_ns* apart."""

    winner: str
    old: str
    epoch: int
    min_ns: int
    max_ns: int


@dataclass(frozen=True)
class Recorded:
    """A recording."""

    folder: Path

    @property
    def name(self) -> str:
        """Its folders."""
        return "/".join(self.folder.parts[-2:])

    @cached_property
    def answers(self) -> list[dict[str, Any]]:
        """The answers to CLUSTER NODES, in order of time."""
        answers = []
        for path in (*self.folder.glob("truth.jsonl.gz"), *self.folder.glob("polls.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in map(json.loads, lines):
                    if line.get("kind", "cluster") == "cluster":
                        text = line.get("nodes") or line["text"]
                        asked = line.get("t") or line["asked"]
                        more = {name: line[name] for name in ("node", "info", "persistence") if name in line}
                        answers.append({"time": line.get("t2") or line["time"], "asked": asked, "text": text} | more)
            break
        return sorted(answers, key=lambda answer: answer["time"])

    @cached_property
    def promotions(self) -> list[TruePromotion]:
        """Every change of a node from replica to master with another epoch, by its own answers."""
        last: dict[str, tuple[str, str, int]] = {}
        changes = []
        for answer in self.answers:
            me = next(line.split() for line in answer["text"].splitlines() if "myself" in line)
            role = "slave" if "slave" in me[2] else "master"
            before = last.get(me[0])
            if before is not None and before[0] == "slave" and role == "master" and me[6] != "0":
                changes.append(TruePromotion(me[0], before[1], int(me[6]), before[2], answer["time"]))
            last[me[0]] = (role, me[3], answer["asked"])
        return changes

    def polls(self, every_s: float, nodes: int | None) -> list[dict[str, Any]]:
        """The answers of the first *nodes* nodes, at least *every_s* apart."""
        last: dict[str, int] = {}
        kept = []
        for answer in self.answers:
            me = next(line.split()[0] for line in answer["text"].splitlines() if "myself" in line)
            if me not in last and nodes is not None and len(last) >= nodes:
                continue
            if answer["asked"] - last.get(me, 0) >= every_s * SECOND_NS - SECOND_NS // 20:
                last[me] = answer["asked"]
                kept.append(answer)
        return kept

    def shown(self, evidence: Evidence) -> list[TruePromotion]:
        """The promotions that *evidence* can show: with polls alone, those of which some answer has the winner as replica, and a later one as master."""
        if evidence.packets or evidence.logs != 0:
            return self.promotions
        answers = self.polls(evidence.every_s, evidence.polls)
        return [promotion for promotion in self.promotions if _shows(answers, promotion)]

    def told(self, evidence: Evidence) -> Told:
        """What *evidence* shows."""
        with tempfile.TemporaryDirectory(prefix="slotscope-") as folder:
            logs = [str(path) for path in sorted(self.folder.glob("logs/*"))][: evidence.logs]
            polls = []
            if evidence.polls != 0:
                target = Path(folder) / "polls.jsonl"
                answers = self.polls(evidence.every_s, evidence.polls)
                target.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
                polls = [str(target)]
            captures = sorted(self.folder.glob("bus*.pcap*")) if evidence.packets else []
            metrics = tuple(map(str, self.folder.glob("metrics.jsonl*"))) if evidence.metrics else ()
            return tell(*captures, statements=PollsAndLogs(tuple(polls), tuple(logs), metrics=metrics))


def _shows(answers: Sequence[dict[str, Any]], promotion: TruePromotion) -> bool:
    """Whether answers of one node have the winner first as a replica of the old master and then as a master."""
    was_replica: dict[str, bool] = {}
    for answer in answers:
        lines = [line.split() for line in answer["text"].splitlines()]
        me = next(line[0] for line in lines if "myself" in line[2])
        winner = next((line for line in lines if line[0] == promotion.winner), None)
        if winner is None:
            continue
        if "slave" in winner[2]:
            was_replica[me] = (winner[3] == promotion.old and answer["asked"] <= promotion.max_ns) or was_replica.get(
                me, False
            )
        elif was_replica.get(me) and int(winner[6]) >= promotion.epoch:
            return True
    return False


def recordings(folders: Sequence[str]) -> list[Recorded]:
    """All recordings below *folders*."""
    paths = sorted({path.parent.parent for folder in folders for path in Path(folder).glob("**/logs/*.log*")})
    return [recorded for recorded in map(Recorded, paths) if recorded.answers]


def misses(truth: Sequence[TruePromotion], replayed: Told) -> Iterator[str]:
    """What is wrong with the promotions that were found."""
    failovers = [incident for incident in replayed.incidents if incident.kind == "failover"]
    left = list(failovers)
    for true in truth:
        mine = next(
            (
                incident
                for incident in left
                if incident.winner == true.winner and incident.epoch in (true.epoch, None, 0)
            ),
            None,
        )
        if mine is None:
            yield f"MISSED {true.winner[:8]} of {true.old[:8]} epoch {true.epoch}"
            continue
        left.remove(mine)
        won_ns = next(step.ts_ns for step in mine.steps if step.kind in ("won", "took-over", "promoted"))
        low_ns = mine.promoted_min_ns or won_ns
        if mine.subject != true.old:
            yield f"OLD {true.winner[:8]}: {mine.subject[:8] or 'unknown'}, not {true.old[:8]}"
        if mine.epoch and mine.epoch != true.epoch:
            yield f"EPOCH {true.winner[:8]}: {mine.epoch}, not {true.epoch}"
        if low_ns > true.max_ns or won_ns < true.min_ns:
            off = (low_ns - true.max_ns if low_ns > true.max_ns else won_ns - true.min_ns) / 1e6
            yield f"TIME {true.winner[:8]}: off by {off:.0f} ms"
        yield f"~{(won_ns - low_ns) / 1e6:.0f}ms/{mine.variant}"
    for incident in left:
        yield f"MADE UP {incident.winner[:8]} of {incident.subject[:8]} epoch {incident.epoch}"


EVIDENCE = (
    Evidence(logs=None),
    Evidence(polls=None),
    Evidence(logs=None, polls=None),
    Evidence(polls=None, every_s=5),
    Evidence(polls=1),
    Evidence(polls=2, every_s=5),
    Evidence(polls=1, every_s=30),
    Evidence(logs=2, polls=1),
    Evidence(logs=3),
)


def main(folders: Sequence[str]) -> None:
    """Print what each part of the evidence shows."""
    totals: dict[str, list[int]] = {}
    for recording in recordings(folders):
        sys.stdout.write(f"== {recording.name}: {len(recording.promotions)} promotions\n")
        for evidence in EVIDENCE:
            truth = recording.shown(evidence)
            verdicts = list(misses(truth, recording.told(evidence)))
            wrong = [verdict for verdict in verdicts if not verdict.startswith("~")]
            total = totals.setdefault(evidence.name, [0, 0, 0])
            total[0] += len(truth)
            total[1] += len(truth) - sum(verdict.startswith("MISSED") for verdict in wrong)
            total[2] += len(wrong)
            sys.stdout.write(f"   {evidence.name:24} {' '.join(verdicts)}\n")
    for name, (of, hits, wrong) in totals.items():
        sys.stdout.write(f"{name:24} {hits} of {of} found, {wrong} wrong\n")


if __name__ == "__main__":
    main(sys.argv[1:])
