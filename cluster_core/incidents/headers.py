"""Spans and violations from the headers of one node, as resumable state."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.incidents.checks.connections import Breach, ConnectionChecks, header_breaches
from cluster_core.incidents.speech import Said, Speech, SpeechFolder
from cluster_core.incidents.thresholds import Thresholds


class NodeHeaders:
    """Processes the headers of *node* in order; `finish` comes last."""

    def __init__(self, node: str, thresholds: Thresholds) -> None:
        self.node = node
        self._folder = SpeechFolder(node, thresholds)
        self._checks = ConnectionChecks(node)
        self._ended: list[Speech] = []

    def feed(self, way: int, said: Said) -> None:
        """Add one header on *way*: a connection and direction."""
        ended = self._folder.feed(said)
        if ended is not None:
            self._ended.append(ended)
        self._checks.feed(way, said)

    def feed_alike(self, ends: Sequence[tuple[int, Said]], last: Said, count: int, offset_max: int) -> bool:
        """Take *count* headers that say the same as the one before them, clocks aside; False, and none is taken, if they do not.

        *last* is the last one, *ends* are the first ones on their ways and then the last ones, with their ways. Times and, on each way, offsets
        do not go back, and there is no silence between them.
        """
        if not self._folder.repeats(last) or header_breaches(last):
            return False
        self._folder.feed_alike(last, count, offset_max)
        for way, said in ends:
            self._checks.feed(way, said)
        return True

    def finish(self, last_ns: int) -> tuple[list[Speech], list[Breach]]:
        """Return all spans, with no header after *last_ns*, and violations."""
        last = self._folder.finish(last_ns)
        return [*self._ended, *([] if last is None else [last])], self._checks.finish()
