"""Recordings of sentinels: folders with a capture, logs, what the sentinels answered and what their channels carried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.sentinel_history.evidence import Evidence, Listened, Told
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.files import read_pieces
from slotscope.sources.resp.rows import BadRecords
from slotscope.sources.sentinel.evidence import SentinelEvidence, SentinelFiles, read_evidence

ANSWERS: Final = ("truth.jsonl.gz", "truth.jsonl")
EVENTS: Final = ("events.jsonl.gz", "events.jsonl")
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SentinelRecording:
    """One folder; *events* is empty where the channels were not recorded."""

    path: Path
    capture: str
    answers: str
    events: str

    @property
    def name(self) -> str:
        """The last two parts of its path."""
        return "/".join(self.path.parts[-2:])

    def read(self) -> SentinelEvidence:
        """Everything that it holds, by sentinel; raises DecodeError for damage."""
        logs = tuple(str(path) for path in sorted(self.path.glob("logs/*.log*")))
        files = SentinelFiles(tuple(survey(find_captures([self.capture]))), logs, (self.answers,))
        return read_evidence(files, BadRecords(strict=True))

    def heard(self, evidence: SentinelEvidence) -> dict[str, list[tuple[str, str]]]:
        """Channel and text of every event that a subscriber got, by sentinel, in order."""
        found: dict[str, list[tuple[str, str]]] = {}
        for told in _lines(self.events) if self.events else ():
            message = told["message"]
            runid = evidence.find(str(told["port"]))
            if len(message) >= 3 and message[0] in ("pmessage", "message") and runid:
                found.setdefault(runid, []).append((str(message[-2]), str(message[-1])))
        return found


def find_sentinel_recordings(folder: str) -> list[SentinelRecording]:
    """The recordings at and below *folder*: those with a capture and answers of sentinels."""
    found = []
    for capture in sorted({*Path(folder).glob("**/resp.pcap"), *Path(folder).glob("**/resp.pcap.gz")}):
        path = capture.parent
        answers = _first(path, ANSWERS)
        if answers and any(line.get("kind") == "sentinel" for line in _lines(answers)):
            found.append(SentinelRecording(path, str(capture), answers, _first(path, EVENTS)))
    return found


def without_events(captured: dict[str, list[Evidence]]) -> dict[str, list[Evidence]]:
    """The same packets as if nobody had subscribed to the sentinels' events."""
    return {
        runid: [item for item in items if not isinstance(item, Told | Listened)] for runid, items in captured.items()
    }


def _first(path: Path, names: tuple[str, ...]) -> str:
    return next((str(path / name) for name in names if (path / name).exists()), "")


def _lines(path: str) -> Iterator[dict[str, Any]]:
    data = b"".join(read_pieces(path, _PIECE_BYTES))
    for number, line in enumerate(data.splitlines(), 1):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DecodeError("not a line of JSON", offset=number, source=path) from error
        if isinstance(told, dict):
            yield told
