"""A replica's side of replication, sans IO: from the connection to the stream, over one channel or two.

`ReplicaLink` keeps no data: it says what to send, when a dump has come and what of the stream belongs to its offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster_core.replication.handshake import (
    ReplicaSettings,
    ReplicaState,
    Verdict,
    introduce,
    introduce_channel,
    judge_reply,
)
from cluster_core.replication.lineage import UNKNOWN_ID, Lineage
from cluster_core.replication.profile import ReplicationProfile
from cluster_core.replication.psync import FORCED_ID
from cluster_core.wire.resp import encode_value
from cluster_core.wire.resp_items import DumpBegun, DumpEnded, Item, Skimmed
from cluster_core.wire.resp_skim import RespSkimmer
from cluster_core.wire.tcp_stream import Mark

MAIN, DUMP = "main", "dump"
"""The two channels."""
ACK_MS: Final = 1000
"""A replica acknowledges each second (P10)."""
TIMEOUT_MS: Final = 60_000
"""`repl-timeout`."""
_NOWHERE: Final = Mark(0, 0, 0)
_NEWLINE: Final = b"\n"


@dataclass(frozen=True, slots=True)
class Connected:
    """A channel is open."""

    channel: str = MAIN


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes came on a channel."""

    data: bytes
    channel: str = MAIN


@dataclass(frozen=True, slots=True)
class Closed:
    """The other side closed a channel."""

    channel: str = MAIN


@dataclass(frozen=True, slots=True)
class Loaded:
    """The dump is loaded."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Connected | Received | Closed | Loaded | Tick


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a channel to the master."""

    channel: str = MAIN


@dataclass(frozen=True, slots=True)
class Send:
    """Send *data* on a channel."""

    data: bytes
    channel: str = MAIN


@dataclass(frozen=True, slots=True)
class Close:
    """Close both channels; *reason* says why, and a later `Tick` connects again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Load:
    """A dump of *received* bytes is here: load it, then say `Loaded`."""

    received: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The replica is in another state."""

    before: ReplicaState
    after: ReplicaState
    cause: str


@dataclass(frozen=True, slots=True)
class Answered:
    """PSYNC was answered: the words of the line."""

    words: tuple[str, ...]


Effect = Connect | Send | Close | Load | Moved | Answered


class ReplicaLink:
    """Feed it events; it returns effects, in order.  It owns no clock and no socket.

    *lineage*: what the replica has (its cached master), None for nothing.  `lineage.offset` follows the stream.
    """

    def __init__(self, settings: ReplicaSettings, profile: ReplicationProfile, lineage: Lineage | None = None) -> None:
        self.settings = settings
        self.profile = profile
        self.lineage = lineage if lineage is not None else Lineage(UNKNOWN_ID)
        self.state = ReplicaState.CONNECT
        self._reset()

    def _reset(self) -> None:
        self._skimmers = {MAIN: RespSkimmer(), DUMP: RespSkimmer()}
        self._waiting: list[ReplicaState] = []
        self._target: tuple[str, int] | None = None
        self._is_dual = False
        self._stream_from: int | None = None
        self._stream_to = 0
        self._has_dump = self._is_loaded = False
        self._acked_ms = 0
        self._heard_ms: int | None = None

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms* (milliseconds) and return the effects."""
        if isinstance(event, Tick):
            return self._on_tick(now_ms)
        self._heard_ms = now_ms
        match event:
            case Connected():
                return self._on_connected(event.channel)
            case Received():
                return self._on_received(event, now_ms)
            case Closed():
                done = event.channel == DUMP and self._has_dump
                return [] if done else self._give_up("the master closed the connection")
            case _:
                return self._on_loaded(now_ms)

    # -- time --------------------------------------------------------------------------------------------------------

    def _on_tick(self, now_ms: int) -> list[Effect]:
        if self.state is ReplicaState.CONNECT:
            self._heard_ms = now_ms
            return [*self._move(ReplicaState.CONNECTING, "time to connect"), Connect()]
        if self._heard_ms is not None and now_ms - self._heard_ms > TIMEOUT_MS:
            return self._give_up("nothing came for the replication timeout")
        if self.state is ReplicaState.LOADING:
            return [Send(_NEWLINE)]  # so that the master does not give up (`replicationSendNewlineToMaster`)
        if self.state is ReplicaState.ONLINE and now_ms - self._acked_ms >= ACK_MS:
            return [self._ack(now_ms)]
        return []

    def _ack(self, now_ms: int) -> Send:
        self._acked_ms = now_ms
        return Send(_command("REPLCONF", "ACK", str(self.lineage.offset)))

    # -- the handshake -----------------------------------------------------------------------------------------------

    def _on_connected(self, channel: str) -> list[Effect]:
        if channel == DUMP:
            words = _command(*introduce_channel(self.settings))
            auth = [s for s in introduce(self.settings, self.profile) if s[0] is ReplicaState.AUTH]
            self._waiting = [ReplicaState.DUMP_CHANNEL] * (1 + len(auth))
            return [Send(b"".join(_command(*said) for _, said in auth) + words, DUMP)]
        return [*self._move(ReplicaState.PING, "connected"), Send(_command("PING"))]

    def _on_received(self, event: Received, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for item in self._skimmers[event.channel].feed(event.data, _NOWHERE):
            effects += self._on_main(item, now_ms) if event.channel == MAIN else self._on_dump_channel(item)
            if self.state is ReplicaState.CONNECT:
                break
        return effects

    def _on_main(self, item: Item, now_ms: int) -> list[Effect]:
        if self._stream_from is not None:
            return self._on_stream(item, now_ms)
        if isinstance(item, DumpBegun):
            return []
        if isinstance(item, DumpEnded):
            self._stream_from = item.end
            return [*self._move(ReplicaState.LOADING, "the dump has come"), Load(item.received)]
        if not isinstance(item, Skimmed) or item.kind not in ("simple", "error"):
            return (
                [] if isinstance(item, Skimmed) and item.kind == "newline" else self._give_up("no reply was expected")
            )
        text = item.words[0].decode("latin-1")
        if self.state is ReplicaState.PSYNC:
            return self._on_answer(text, item, now_ms)
        return self._on_reply(text, is_error=item.kind == "error")

    def _on_reply(self, text: str, *, is_error: bool) -> list[Effect]:
        verdict = judge_reply(self.state, text, is_error=is_error)
        if verdict is Verdict.GIVE_UP:
            return self._give_up(f"refused: {text}")
        if self.state is ReplicaState.PING:
            said = introduce(self.settings, self.profile)
            self._waiting = [state for state, _ in said]
            data = b"".join(_command(*words) for _, words in said)
            return [*self._move(self._waiting.pop(0), text), Send(data)]
        if self._waiting:
            return self._move(self._waiting.pop(0), text)
        return [*self._move(ReplicaState.PSYNC, text), self._ask()]

    def _ask(self) -> Send:
        """P2: from the byte behind what we have, or for everything."""
        if self._target is not None:
            return Send(_command("PSYNC", self._target[0], str(self._target[1] + 1)))
        if self.lineage.replid == UNKNOWN_ID:
            return Send(_command("PSYNC", FORCED_ID, "-1"))
        return Send(_command("PSYNC", self.lineage.replid, str(self.lineage.offset + 1)))

    def _on_answer(self, text: str, item: Skimmed, now_ms: int) -> list[Effect]:
        """`replicaTryPartialResynchronization`."""
        words = tuple(text.split(" "))
        told: list[Effect] = [Answered(words)]
        match words:
            case ("FULLRESYNC", replid, offset) if len(replid) == 40 and offset.isdigit():
                self._target = (replid, int(offset))
                return [*told, *self._move(ReplicaState.TRANSFER, text)]
            case ("CONTINUE", *rest):
                return [*told, *self._go_on(rest[0] if rest else "", item.end, now_ms)]
            case ("DUALCHANNELSYNC",) if self.settings.dual_channel:
                self._is_dual = True
                return [*told, *self._move(ReplicaState.DUMP_CHANNEL, text), Connect(DUMP)]
            case _ if item.kind == "error" and not text.startswith(("NOMASTERLINK", "LOADING")):
                self._target = ("", 0)
                self._skimmers[MAIN].expect_dump()
                return [*told, *self._move(ReplicaState.TRANSFER, "PSYNC is not known"), Send(_command("SYNC"))]
            case _:
                return [*told, *self._give_up(text)]

    def _go_on(self, replid: str, position: int, now_ms: int) -> list[Effect]:
        if self._is_dual:
            self._stream_from = self._stream_to = position
            moved = self._move(ReplicaState.TRANSFER, "the stream comes while the dump does")
            if self._has_dump:  # it was faster than the answer
                moved += self._move(ReplicaState.LOADING, "the dump has come")
            return [*moved, *self._on_loaded(now_ms)] if self._is_loaded else moved
        if replid:
            self.lineage.adopt(replid)
        self._stream_from = position
        return self._move(ReplicaState.ONLINE, "CONTINUE")

    # -- the channel of the dump -------------------------------------------------------------------------------------

    def _on_dump_channel(self, item: Item) -> list[Effect]:
        if isinstance(item, DumpEnded):
            self._has_dump = True
            waits = self._stream_from is None
            return [*([] if waits else self._move(ReplicaState.LOADING, "the dump has come")), Load(item.received)]
        if not isinstance(item, Skimmed) or item.kind == "newline":
            return []
        text = item.words[0].decode("latin-1") if item.words else ""
        if item.kind == "error":
            return self._give_up(f"refused: {text}")
        if item.kind == "endoff":
            offset, replid, *rest = [*text.split(" "), ""]
            if not offset.isdigit() or len(replid) != 40:
                return self._give_up("the end offset is no offset")
            self._target = (replid, int(offset))
            client = rest[1] if len(rest) > 1 else ""
            return [
                *self._move(ReplicaState.CLIENT_ID, "ENDOFF"),
                Send(_command("REPLCONF", "set-rdb-client-id", client)),
            ]
        self._waiting = self._waiting[1:]
        return [] if self._waiting else [Send(_command("SYNC"), DUMP)]

    # -- the stream --------------------------------------------------------------------------------------------------

    def _on_stream(self, item: Item, now_ms: int) -> list[Effect]:
        self._stream_to = item.end
        if self.state is not ReplicaState.ONLINE:
            return []  # kept until the dump is loaded
        start, self._stream_from = self._stream_from, item.end
        self.lineage.advance(item.end - (start or 0))
        if isinstance(item, Skimmed) and [w.upper() for w in item.words[:2]] == [b"REPLCONF", b"GETACK"]:
            return [self._ack(now_ms)]
        return []

    def _on_loaded(self, now_ms: int) -> list[Effect]:
        if self._target is None:
            return []
        self._is_loaded = True
        if self._stream_from is None or self.state is not ReplicaState.LOADING:
            return []  # dual channel, and PSYNC is not answered yet
        self.lineage.replace(*self._target)
        self.lineage.advance(max(0, self._stream_to - self._stream_from))
        self._stream_from = max(self._stream_from, self._stream_to)
        return [*self._move(ReplicaState.ONLINE, "loaded"), self._ack(now_ms)]

    # -- ends --------------------------------------------------------------------------------------------------------

    def _give_up(self, reason: str) -> list[Effect]:
        effects = [*self._move(ReplicaState.CONNECT, reason), Close(reason)]
        self._reset()
        return effects

    def _move(self, after: ReplicaState, cause: str) -> list[Effect]:
        before, self.state = self.state, after
        return [Moved(before, after, cause)] if before is not after else []


def _command(*words: str) -> bytes:
    return encode_value([word.encode("latin-1") for word in words], protocol=2)
