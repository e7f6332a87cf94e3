"""Asks a real master as a replica does: introduces itself, sends PSYNC, skips the dump, counts and acknowledges the stream.

It keeps no data; what a master answers and how it counts its stream is all that it is for.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from cluster_core.formats.capture.resp_capture import RespSkimmer
from cluster_core.replication.psync import FORCED_ID, Lineage
from cluster_core.wire.resp import DumpEnded, Item, Skimmed, encode_value
from cluster_core.wire.tcp_stream import Mark

WAIT_SECONDS_MAX = 10.0


class Channel:
    """One connection to a master, whose answers are cut into values."""

    def __init__(self, port: int, *hello: tuple[str, ...]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.settimeout(0.02)
        self._skimmer = RespSkimmer()
        for words in hello:
            self.call(*words)

    def call(self, *words: str) -> None:
        """Send one command and wait until it is answered; what the introduction is answered is never an error."""
        self.say(*words)
        items: list[Item] = []
        while not items:
            items = self.hear()
        assert isinstance(items[0], Skimmed)
        assert items[0].kind == "simple", items[0].words

    def say(self, *words: str) -> None:
        """Send one command."""
        self.socket.sendall(encode_value([word.encode() for word in words], protocol=2))

    def hear(self) -> list[Item]:
        """What has come since the last time."""
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return []
        return self._skimmer.feed(data, Mark(0, 0, 0))


class PsyncClient:
    """A replica that has *lineage*, or nothing; *dual_channel*: it lets the dump come over a connection of its own."""

    def __init__(self, port: int, lineage: Lineage | None = None, *, dual_channel: bool = False) -> None:
        self.lineage = lineage
        self.answers: list[tuple[str, ...]] = []
        self.dump_bytes = 0
        self.is_online = False
        self._port, self._dual_channel = port, dual_channel
        self._streamed_to: int | None = None

    def __enter__(self) -> PsyncClient:
        offered = ("capa", "dual-channel") if self._dual_channel else ()
        capabilities = ("REPLCONF", "capa", "eof", "capa", "psync2", *offered)
        self._main = Channel(self._port, ("PING",), ("REPLCONF", "listening-port", "1"), capabilities)
        self._channels = [self._main]
        self._main.say(
            "PSYNC", *((self.lineage.replid, str(self.lineage.offset + 1)) if self.lineage else (FORCED_ID, "-1"))
        )
        return self

    def __exit__(self, *_: object) -> None:
        for channel in self._channels:
            channel.socket.close()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Read and acknowledge until *condition* holds; raises TimeoutError."""
        end = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"answered {self.answers}, then nothing that was waited for")
            for item in self._main.hear():
                self._on_main(item)
            for channel in self._channels[1:]:
                for item in channel.hear():
                    self._on_dump_channel(channel, item)
            if self.is_online and self.lineage is not None:
                self._main.say("REPLCONF", "ACK", str(self.lineage.offset))

    def _on_main(self, item: Item) -> None:
        if self._streamed_to is not None and self.lineage is not None:
            self.lineage.offset += item.end - self._streamed_to
            self._streamed_to = item.end
        elif isinstance(item, DumpEnded):
            self.dump_bytes, self.is_online, self._streamed_to = item.received, True, item.end
        elif isinstance(item, Skimmed) and item.kind in ("simple", "error"):
            self._on_answer(tuple(item.words[0].decode().split()), item.end)

    def _on_answer(self, words: tuple[str, ...], end: int) -> None:
        self.answers.append(words)
        if words[0] == "FULLRESYNC":
            self.lineage = Lineage(words[1], int(words[2]))
        elif words[0] == "DUALCHANNELSYNC":
            hello = (
                "REPLCONF",
                "capa",
                "eof",
                "rdb-only",
                "1",
                "rdb-channel",
                "1",
                "listening-port",
                "1",
                "version",
                "9.1.0",
            )
            self._channels.append(Channel(self._port, hello))
            self._channels[1].say("SYNC")
        else:
            assert words[0] == "CONTINUE", words
            self._streamed_to, self.is_online = end, True

    def _on_dump_channel(self, channel: Channel, item: Item) -> None:
        """``$ENDOFF:offset replid database client``, then the dump."""
        if isinstance(item, DumpEnded):
            self.dump_bytes = item.received
        elif isinstance(item, Skimmed) and item.kind == "endoff":
            offset, replid, _, client = item.words[0].decode().split()
            self.lineage = Lineage(replid, int(offset))
            self._main.call("REPLCONF", "set-rdb-client-id", client)
            self._main.say("PSYNC", replid, str(int(offset) + 1))
