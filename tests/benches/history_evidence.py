"""Recorded clusters, and what each part of their evidence shows: packets, logs, metrics, polls of some nodes at some interval."""

from __future__ import annotations

import gzip
import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.benches.replayed_captures import Replayed, replay_captures

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
    """A folder with ``polls.jsonl.gz`` and ``logs``, perhaps with ``bus.pcap.gz`` and ``metrics.jsonl.gz``."""

    folder: Path

    @cached_property
    def answers(self) -> list[dict[str, Any]]:
        """The answers to CLUSTER NODES, in order of time."""
        with gzip.open(self.folder / "polls.jsonl.gz", "rt", encoding="utf-8") as lines:
            return sorted(map(json.loads, lines), key=lambda answer: answer["time"])

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

    def replay(self, evidence: Evidence) -> Replayed:
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
            return replay_captures(*captures, statements=PollsAndLogs(tuple(polls), tuple(logs), metrics=metrics))
