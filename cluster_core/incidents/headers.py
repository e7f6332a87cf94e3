"""What the headers of one node came to so far: spans of speech and broken invariants, to be saved and gone on with."""

from __future__ import annotations

from cluster_core.incidents.checks.connections import Breach, ConnectionChecks
from cluster_core.incidents.speech import Said, Speech, SpeechFolder
from cluster_core.incidents.thresholds import Thresholds


class NodeHeaders:
    """Feed it the headers of *node* in the order of their messages; `finish` comes last."""

    def __init__(self, node: str, thresholds: Thresholds) -> None:
        self.node = node
        self._folder = SpeechFolder(node, thresholds)
        self._checks = ConnectionChecks(node)
        self._ended: list[Speech] = []

    def feed(self, way: int, said: Said) -> None:
        """Take one header, which went on *way*: a connection, and a direction of it."""
        ended = self._folder.feed(said)
        if ended is not None:
            self._ended.append(ended)
        self._checks.feed(way, said)

    def finish(self, last_ns: int) -> tuple[list[Speech], list[Breach]]:
        """All spans, as nothing came after *last_ns*, and what was broken."""
        last = self._folder.finish(last_ns)
        return [*self._ended, *([] if last is None else [last])], self._checks.finish()
