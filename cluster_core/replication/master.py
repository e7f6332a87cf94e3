"""A master's side of replication, sans IO: handshakes, PSYNC, dumps over one channel or two, the stream, acknowledgements.

`MasterDesk` owns the identity and the backlog.  Whoever drives it makes the dumps: it is told when to start one and says
when it begins and ends.  Ids are drawn by the *draw_id* that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from cluster_core.replication.acks import Acknowledged
from cluster_core.replication.backlog import Backlog
from cluster_core.replication.lineage import Lineage
from cluster_core.replication.profile import ReplicationProfile
from cluster_core.replication.psync import Answer, AnswerKind, MasterView, Reason, Request, decide_psync, read_request

TIMEOUT_MS: Final = 60_000
"""`repl-timeout`: a replica that acknowledges nothing for that long is dropped (P10)."""
PING_MS: Final = 10_000
"""`repl-ping-replica-period`."""
_PING: Final = b"*1\r\n$4\r\nping\r\n"
_REFUSALS: Final = {
    Reason.NO_MASTER_LINK: b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n",
    Reason.FAILING_OVER: b"-NOMASTERLINK Can't SYNC while failing over\r\n",
    Reason.LOADING: b"-LOADING Redis is loading the dataset in memory\r\n",
    Reason.NOT_A_REPLICA: b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n",
    Reason.OTHER_ID: b"-ERR PSYNC FAILOVER replid must match my replid.\r\n",
    Reason.BAD_OFFSET: b"-ERR value is not an integer or out of range\r\n",
}


class Stage(Enum):
    """Where a replica is with its master; the value is what INFO says (`REPLICA_STATE_*`)."""

    HANDSHAKE = "handshake"
    WAIT_DUMP = "wait_bgsave"
    SEND_DUMP = "send_bulk"
    ONLINE = "online"


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """A client sent REPLCONF, PSYNC or SYNC."""

    client: int
    words: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """The data changed: *data* is what replicas must be sent, SELECT included."""

    data: bytes


@dataclass(frozen=True, slots=True)
class DumpStarted:
    """The dump that was asked for is a picture of now."""


@dataclass(frozen=True, slots=True)
class DumpReady:
    """It can be sent: *length* bytes, or None when *mark* will end it."""

    length: int | None
    mark: bytes = b""


@dataclass(frozen=True, slots=True)
class DumpSent:
    """*client* has been sent all of it."""

    client: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A client's connection is closed."""

    client: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = CommandReceived | Written | DumpStarted | DumpReady | DumpSent | Gone | Tick


@dataclass(frozen=True, slots=True)
class Send:
    """Send *data* to a client."""

    client: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StartDump:
    """Begin a dump; say `DumpStarted` when its moment is fixed."""


@dataclass(frozen=True, slots=True)
class SendDump:
    """Send the dump to a client, then say `DumpSent`."""

    client: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Close a client's connection."""

    client: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decided:
    """How PSYNC was answered."""

    client: int
    answer: Answer


Effect = Send | StartDump | SendDump | Drop | Decided


@dataclass(slots=True)
class Replica:
    """A client that is, or wants to be, a replica; *held*: what was written since its dump began."""

    client: int
    stage: Stage = Stage.HANDSHAKE
    port: int = 0
    capabilities: set[str] = field(default_factory=set)
    acked: int = 0
    ack_ms: int = 0
    held: bytearray = field(default_factory=bytearray)
    has_started: bool = False
    """Its dump is a picture of a moment that has been."""
    is_dump_channel: bool = False
    """It is a connection for a dump alone (dual channel): no stream, no acknowledgements."""
    dump_client: int | None = None
    """The client that is the connection for its dump."""
    reads_from: int | None = None
    """Of a connection for a dump: where the stream behind the dump begins, until its replica has come for it."""


class MasterDesk:
    """Feed it events; it returns effects, in order.  It owns no clock, no socket and no chance."""

    def __init__(
        self,
        lineage: Lineage,
        profile: ReplicationProfile,
        draw_id: Callable[[], str],
        *,
        backlog_bytes: int = 0,
        is_replica: bool = False,
        dual_channel: bool = False,
    ) -> None:
        self.lineage = lineage
        self.backlog: Backlog | None = None
        self.replicas: dict[int, Replica] = {}
        self.is_replica = is_replica
        self.is_link_up = True
        self._profile = profile
        self._draw_id = draw_id
        self._backlog_bytes = backlog_bytes or profile.backlog_bytes
        self._dual_channel = dual_channel and profile.dual_channel
        self._pinged_ms: int | None = None

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms* (milliseconds) and return the effects."""
        match event:
            case CommandReceived():
                return self._on_command(event, now_ms)
            case Written():
                return self._feed(event.data)
            case DumpStarted():
                return self._on_dump_started()
            case DumpReady():
                return self._on_dump_ready(event)
            case DumpSent():
                return self._on_dump_sent(event.client, now_ms)
            case Gone():
                self.replicas.pop(event.client, None)
                self._keep_backlog()
                return []
            case _:
                return self._on_tick(now_ms)

    def acknowledged(self) -> list[Acknowledged]:
        """What the replicas said last, for `acks`."""
        own = [replica for replica in self.replicas.values() if not replica.is_dump_channel]
        return [Acknowledged(r.acked, r.ack_ms, r.stage is Stage.ONLINE) for r in own]

    def promote(self) -> list[Effect]:
        """REPLICAOF NO ONE: a new id, and replicas come back under the old one (P5)."""
        self.is_replica = False
        self.lineage.promote(self._draw_id())
        gone = [Drop(client, "promoted") for client in self.replicas]
        self.replicas.clear()
        return list(gone)

    def drop_backlog(self) -> None:
        """Nobody was there for repl-backlog-ttl: the history ends (P8)."""
        self.backlog = None
        self.lineage.renew(self._draw_id())

    # -- commands ----------------------------------------------------------------------------------------------------

    def _on_command(self, event: CommandReceived, now_ms: int) -> list[Effect]:
        name, *rest = event.words
        match name.upper():
            case b"PING":
                return [Send(event.client, b"+PONG\r\n")]
            case b"REPLCONF":
                return self._on_replconf(event.client, rest, now_ms)
            case b"PSYNC" | b"SYNC":
                return self._on_request(event.client, read_request(event.words), now_ms)
            case _:
                return [Send(event.client, b"-ERR unknown command\r\n")]

    def _replica(self, client: int) -> Replica:
        return self.replicas.setdefault(client, Replica(client))

    def _on_replconf(self, client: int, words: Sequence[bytes], now_ms: int) -> list[Effect]:
        replica = self._replica(client)
        if words and words[0].upper() == b"ACK":
            if len(words) > 1 and words[1].isdigit() and len(words[1]) <= 19:
                replica.acked, replica.ack_ms = max(replica.acked, int(words[1])), now_ms
            return []  # the one command without a reply
        for name, value in zip(words[::2], words[1::2], strict=False):
            if name.lower() == b"listening-port" and value.isdigit() and len(value) <= 5:
                replica.port = int(value)
            elif name.lower() == b"capa":
                replica.capabilities.add(value.decode("latin-1"))
            elif name.lower() == b"rdb-channel" and self._dual_channel:
                replica.is_dump_channel = value == b"1"
            elif name.lower() == b"set-rdb-client-id" and self._dual_channel:
                channel = self.replicas.get(int(value)) if value.isdigit() and len(value) <= 19 else None
                if channel is None or channel.reads_from is None:
                    return [Send(client, b"-ERR Unrecognized RDB client id\r\n")]
                replica.dump_client = channel.client
        return [Send(client, b"+OK\r\n")]

    def _on_request(self, client: int, request: Request, now_ms: int) -> list[Effect]:
        replica = self._replica(client)
        window = (self.backlog.first_offset, self.backlog.length) if self.backlog else None
        view = MasterView(
            self.lineage,
            window,
            is_replica=self.is_replica,
            is_link_up=self.is_link_up,
            dual_channel=self._dual_channel,
        )
        request = replace(
            request,
            dual_channel="dual-channel" in replica.capabilities,
            is_main_channel=replica.dump_client is not None,
            is_dump_channel=replica.is_dump_channel,
        )
        answer = decide_psync(request, view)
        told: list[Effect] = [Decided(client, answer)]
        if answer.promotes:
            told += [effect for effect in self.promote() if not (isinstance(effect, Drop) and effect.client == client)]
            self.replicas[client] = replica
        if answer.kind is AnswerKind.REFUSED:
            return [*told, Send(client, _REFUSALS[answer.reason])]
        if answer.kind is AnswerKind.DUAL_CHANNEL:
            return [*told, Send(client, b"+DUALCHANNELSYNC\r\n")]
        if answer.kind is AnswerKind.PARTIAL and self.backlog is not None and request.offset is not None:
            replica.stage, replica.ack_ms = Stage.ONLINE, now_ms
            named = "psync2" in replica.capabilities and self._profile.continues_with_id
            line = f"+CONTINUE {self.lineage.replid}\r\n" if named else "+CONTINUE\r\n"
            told.append(Send(client, line.encode() + self.backlog.read_from(request.offset)))
            self._release(replica)
            return told
        return [*told, *self._begin_full(replica)]

    def _begin_full(self, replica: Replica) -> list[Effect]:
        waiting = any(r.stage is Stage.WAIT_DUMP and not r.has_started for r in self.replicas.values())
        replica.stage = Stage.WAIT_DUMP
        if self.backlog is None:
            self.lineage.renew(self._draw_id())  # no history before the backlog (P8)
            block_bytes = self._profile.block_bytes
            self.backlog = Backlog(self._backlog_bytes, self.lineage.offset + 1, block_bytes=block_bytes)
        return [] if waiting else [StartDump()]

    # -- dumps and the stream ----------------------------------------------------------------------------------------

    def _on_dump_started(self) -> list[Effect]:
        replid, offset = self.lineage.replid, self.lineage.offset
        sent: list[Effect] = []
        for replica in self.replicas.values():
            if replica.stage is Stage.WAIT_DUMP and not replica.has_started:
                replica.has_started = True
                line = f"+FULLRESYNC {replid} {offset}\r\n"
                if replica.is_dump_channel:
                    replica.reads_from = offset + 1
                    line = f"$ENDOFF:{offset} {replid} 0 {replica.client}\r\n"
                sent.append(Send(replica.client, line.encode()))
        self._keep_backlog()
        return sent

    def _release(self, replica: Replica) -> None:
        """The stream behind a dump goes to *replica* itself from now on (the main channel has come)."""
        channel = self.replicas.get(replica.dump_client) if replica.dump_client is not None else None
        replica.dump_client = None
        if channel is not None:
            channel.reads_from = None
        self._keep_backlog()

    def _keep_backlog(self) -> None:
        """Nothing is dropped that the replica of a dump has still to come for (`addRdbReplicaToPsyncWait`)."""
        if self.backlog is not None:
            awaited = [r.reads_from for r in self.replicas.values() if r.reads_from is not None]
            self.backlog.keep_from = min(awaited, default=None)

    def _on_dump_ready(self, event: DumpReady) -> list[Effect]:
        head = b"$EOF:" + event.mark + b"\r\n" if event.length is None else b"$%d\r\n" % event.length
        sent: list[Effect] = []
        for replica in self.replicas.values():
            if replica.stage is Stage.WAIT_DUMP and replica.has_started:
                replica.stage = Stage.SEND_DUMP
                sent += [Send(replica.client, head), SendDump(replica.client)]
        return sent

    def _on_dump_sent(self, client: int, now_ms: int) -> list[Effect]:
        replica = self.replicas.get(client)
        if replica is None or replica.stage is not Stage.SEND_DUMP:
            return []
        replica.stage, replica.ack_ms, replica.has_started = Stage.ONLINE, now_ms, False
        data = bytes(replica.held)
        replica.held.clear()
        return [Send(client, data)] if data else []

    def _feed(self, data: bytes) -> list[Effect]:
        """Add to the stream (P9): the backlog keeps it, replicas get it, or are kept it while their dump comes."""
        if self.backlog is None:
            return []
        self.backlog.feed(data)
        self.lineage.advance(len(data))
        sent: list[Effect] = []
        for replica in self.replicas.values():
            if replica.is_dump_channel:
                continue
            if replica.stage is Stage.ONLINE:
                sent.append(Send(replica.client, data))
            elif replica.has_started:
                replica.held += data
        return sent

    def _on_tick(self, now_ms: int) -> list[Effect]:
        online = [replica for replica in self.replicas.values() if replica.stage is Stage.ONLINE]
        late = [r.client for r in online if now_ms - r.ack_ms > TIMEOUT_MS and (not r.is_dump_channel or r.reads_from)]
        effects: list[Effect] = [Drop(client, "no acknowledgement for the replication timeout") for client in late]
        for client in late:
            del self.replicas[client]
        self._keep_backlog()
        if self._pinged_ms is None or now_ms - self._pinged_ms >= PING_MS:
            self._pinged_ms = now_ms
            if self.replicas and not self.is_replica:
                effects += self._feed(_PING)
        return effects
