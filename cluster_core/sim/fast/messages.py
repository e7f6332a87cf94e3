"""Messages of the compiled gossip loop as the values that the plain machine reads, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cluster_core.gossip.profile import ExtensionFlag
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.wire.bus import (
    Extension,
    Fail,
    Gossip,
    GossipEntry,
    Header,
    Message,
    MessageFlag,
    MessageType,
)
from cluster_core.wire.bus_extensions import RECORD_HEADER_BYTES, shard_id_extension

if TYPE_CHECKING:
    from cluster_core.gossip.profile import Profile
    from cluster_core.sim.fast.state import SteadyState

FAIL: Final = int(MessageType.FAIL)
MEET: Final = int(MessageType.MEET)
ENTRIES_MAX: Final = 1 << 16
"""Entries of gossip whose columns are kept."""


class MessageMaker:
    """Makes messages of *steady*'s nodes from numbers; keeps what is said again and again."""

    def __init__(self, steady: SteadyState) -> None:
        self._steady = steady
        self._extensions: dict[int, tuple[Extension, ...]] = {0: ()}
        self.verdicts: dict[int, Message] = {}
        self._entries: dict[GossipEntry, list[int]] = {}

    def make(self, slot: int) -> Message:
        """The message in *slot*, equal to what the plain machine would have sent."""
        steady = self._steady
        m = steady.store.message(slot)
        if m[at.M_KIND] == FAIL:
            return self.verdicts[slot]
        sender = m[at.M_ACCEPTOR] if m[at.M_BACK] else m[at.M_OPENER]
        ids, addresses = steady.ids, steady.numbers.addresses
        entries = []
        base_ms = steady.base_ms
        for node, ping, pong, rest in steady.store.entries_of(slot, m[at.M_COUNT]):
            ip, port, cport, pport = addresses[rest >> at.ADDRESS_SHIFT]
            ping_s = (ping + base_ms) // 1000 if ping != at.NEVER else 0
            pong_s = (pong - at.FIRST_MS + base_ms) // 1000 if pong else 0
            entries.append(GossipEntry(ids[node], ping_s, pong_s, ip, port, cport, rest & at.FLAG_BITS, pport))
        extensions = self.extensions(m[at.M_SHARD])
        settings = steady.hosts[sender].settings
        flags = extension_flags(settings.profile, has_any=bool(extensions))
        header = Header(
            totlen=m[at.M_BYTES],
            port=settings.port,
            type=m[at.M_KIND],
            count=m[at.M_COUNT],
            current_epoch=m[at.M_EPOCH],
            config_epoch=m[at.M_CONFIG_EPOCH],
            offset=m[at.M_OFFSET],
            sender=ids[sender],
            myslots=steady.numbers.bitmap(m[at.M_SLOTS]),
            replicaof=ids[m[at.M_MASTER]] if m[at.M_MASTER] >= 0 else "",
            myip=settings.announce_ip,
            extensions=len(extensions),
            cport=settings.bus_port,
            flags=m[at.M_FLAGS],
            state=0 if m[at.M_OK] else 1,
            mflags=bytes((flags, 0, 0)),
        )
        return Message(header, Gossip(tuple(entries), extensions))

    def take(self, slot: int) -> Message:
        """The message in *slot*, which is free from now on."""
        message = self.make(slot)
        self._steady.store.free(slot)
        return message

    def extensions(self, shard: int) -> tuple[Extension, ...]:
        """What stands behind the gossip: the id of a shard, or nothing."""
        known = self._extensions.get(shard)
        if known is None:
            known = self._extensions[shard] = (shard_id_extension(self._steady.numbers.shards[shard]),)
        return known

    def columns_of(self, row: int, message: Message) -> tuple[dict[int, int], list[list[int]]] | None:
        """The columns and entries of a PING, PONG or FAIL that the plain machine of node *row* sends; None for one that says more than they
        hold.
        """
        header, body = message.header, message.body
        if not isinstance(header, Header) or header.mflags[0] & MessageFlag.PAUSED:
            return None
        master = self._steady.index_of.get(header.replicaof, at.UNKNOWN) if header.replicaof else at.NONE
        columns: dict[int, int] = {
            at.M_KIND: int(header.type),
            at.M_EPOCH: header.current_epoch,
            at.M_CONFIG_EPOCH: header.config_epoch,
            at.M_OFFSET: header.offset,
            at.M_FLAGS: header.flags,
            at.M_MASTER: master,
            at.M_SLOTS: self._steady.numbers.slots(int.from_bytes(header.myslots, "little")),
            at.M_OK: int(not header.state),
            at.M_SHARD: 0,
            at.M_COUNT: 0,
            at.M_BYTES: header.totlen,
        }
        if master == at.UNKNOWN:
            return None
        if isinstance(body, Fail):
            if body.node not in self._steady.index_of:
                return None
            columns[at.M_SUBJECT] = self._steady.index_of[body.node]
            return columns, []
        return self._with_gossip(row, body, columns) if isinstance(body, Gossip) and header.type != MEET else None

    def _with_gossip(
        self, row: int, body: Gossip, columns: dict[int, int]
    ) -> tuple[dict[int, int], list[list[int]]] | None:
        if body.extensions:
            shard = self._steady.numbers.shard(self._steady.views[row].myself.shard_id)
            if body.extensions != self.extensions(shard):
                return None
            columns[at.M_SHARD] = shard
        entries = [self._entries.get(entry) or self._entry(entry) for entry in body.entries]
        if None in entries:
            return None
        columns[at.M_COUNT] = len(entries)
        return columns, entries  # type: ignore[return-value]  # none is None

    def _entry(self, entry: GossipEntry) -> list[int] | None:
        """The columns of an entry, which goes to many; None for one about a stranger."""
        node = self._steady.index_of.get(entry.node)
        if node is None:
            return None
        if len(self._entries) == ENTRIES_MAX:
            self._entries.clear()
        base_ms = self._steady.base_ms
        address = self._steady.numbers.address(entry.ip, entry.port, entry.cport, entry.pport)
        ping = entry.ping_sent_s * 1000 - base_ms if entry.ping_sent_s else at.NEVER
        pong = entry.pong_received_s * 1000 - base_ms + at.FIRST_MS if entry.pong_received_s else 0
        known = self._entries[entry] = [node, ping, pong, entry.flags & at.FLAG_BITS | address << at.ADDRESS_SHIFT]
        return known


def extension_bytes(shard_id: str) -> int:
    """How long the extension with a shard id is."""
    return RECORD_HEADER_BYTES + len(shard_id_extension(shard_id).data)


def extension_flags(profile: Profile, *, has_any: bool) -> int:
    """mflags[0] of a PING or PONG outside a manual failover (message_flags)."""
    if has_any or profile.extension_flag in (ExtensionFlag.ALWAYS, ExtensionFlag.GOSSIP):
        return int(MessageFlag.EXT_DATA)
    return 0
