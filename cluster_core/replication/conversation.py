"""One connection of a client port, as far as replication is concerned: who is the replica, what was asked, what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cluster_core.formats.capture.bus_capture import ACCEPTOR, INITIATOR, Endpoint, Origin
from cluster_core.replication.psync import Request, read_request
from cluster_core.replication.rows import LinkSpan, Resync
from cluster_core.wire.resp_items import DumpBegun, DumpEnded, Item, Skimmed

_COMMANDS = ("array", "inline")


@dataclass(slots=True)
class Conversation:
    """What is known of a connection; *base* and *start* turn a position in the direction into a replication offset."""

    number: int
    opened_ns: int
    client: Endpoint | None = None
    server: Endpoint | None = None
    is_accepted: bool = False
    is_closed: bool = False
    listening_port: int | None = None
    announced_ip: str = ""
    version: str = ""
    capabilities: set[str] = field(default_factory=set)
    asks_info: bool = False
    """The client has sent INFO, so a reply may be one to it; values of keys may look like that, too."""
    is_dump_channel: bool = False
    has_dump_channel: bool = False
    asked: list[Resync] = field(default_factory=list)
    pending: Resync | None = None
    """Waits for its answer."""
    transfer: Resync | None = None
    """Was answered in full; the replica is not up yet."""
    base: int | None = None
    start: int | None = None
    server_end: int = 0
    sent: int | None = None
    replid: str | None = None
    span: LinkSpan | None = None
    dump_ended_ns: int | None = None
    sent_ns: int = 0
    """When the last bytes of the stream went over the wire."""
    marked: int | None = None
    burst: Resync | None = None
    """Was just let go on; what is sent now is what it lacked."""

    @property
    def replica(self) -> str:
        """The name of the client as a server of its own: its announced or seen address, and the port it listens on."""
        ip = self.announced_ip or (self.client.ip if self.client else "?")
        if self.listening_port is None:
            return f"{ip}:?{self.client.port if self.client else 0}"
        return f"{ip}:{self.listening_port}"

    @property
    def master(self) -> str:
        """The name of the server."""
        return f"{self.server.ip}:{self.server.port}" if self.server else "?"

    @property
    def is_stream(self) -> bool:
        """Whether a replication stream runs on it."""
        return self.start is not None

    def is_from_client(self, origin: Origin, item: Item) -> bool:
        """Whether the client said *item*; where the opening was not seen, what is said decides, else the lower port."""
        if origin.direction in (INITIATOR, ACCEPTOR):
            return self._take_sides(origin, is_client=origin.direction == INITIATOR)
        words = item.words if isinstance(item, Skimmed) else ()
        if [word.upper() for word in words[:2]] == [b"REPLCONF", b"ACK"] or (words and words[0].upper() == b"PSYNC"):
            return self._take_sides(origin, is_client=True, is_sure=True)
        if isinstance(item, DumpBegun | DumpEnded) or (isinstance(item, Skimmed) and item.kind not in _COMMANDS):
            return self._take_sides(origin, is_client=False)
        return self._take_sides(origin, is_client=origin.source.port > origin.target.port)

    def _take_sides(self, origin: Origin, *, is_client: bool, is_sure: bool = False) -> bool:
        if self.client is None or is_sure:
            self.client, self.server = (origin.source, origin.target) if is_client else (origin.target, origin.source)
        return self.client == origin.source

    def note_replconf(self, words: Sequence[bytes]) -> None:
        """REPLCONF name value name value …, said before PSYNC."""
        for name, value in zip(words[1::2], words[2::2], strict=False):
            text = value.decode("latin-1")
            match name.lower():
                case b"listening-port" if text.isdigit() and len(text) <= 5:
                    self.listening_port = int(text)
                case b"ip-address":
                    self.announced_ip = text
                case b"capa":
                    self.capabilities.add(text)
                case b"version":
                    self.version = text
                case b"rdb-channel":
                    self.is_dump_channel = text == "1"
                case b"set-rdb-client-id":
                    self.has_dump_channel = True
                case _:
                    pass

    def request_of(self, words: Sequence[bytes]) -> Request:
        """What PSYNC or SYNC asks for."""
        return replace(
            read_request(words),
            dual_channel="dual-channel" in self.capabilities,
            is_main_channel=self.has_dump_channel,
            is_dump_channel=self.is_dump_channel,
        )

    def stream_offset(self, end: int) -> int | None:
        """The replication offset at position *end* of what the master sent."""
        return None if self.base is None or self.start is None else self.base + end - self.start

    def begin_stream(self, base: int | None, position: int) -> None:
        """The byte behind *position* has the offset behind *base*."""
        self.base, self.start, self.sent, self.marked = base, position, base, base
