"""Our own header, and the messages that are little more than one (R3, R6, R7, clusterBuildMessageHdr).

Headers are kept until what they say changes: in quiet times a node builds none.
"""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.flags import LIGHT_HEADER_PUBLISH, MASTER
from cluster_core.gossip.profile import ExtensionFlag
from cluster_core.gossip.view import Peer
from cluster_core.node.state import NodeState
from cluster_core.wire.bus import (
    GOSSIP_TYPES,
    HEADER_BYTES,
    LIGHT_HEADER_BYTES,
    NODE_ID_BYTES,
    SLOT_BITMAP_BYTES,
    Empty,
    Fail,
    Header,
    LightHeader,
    Message,
    MessageFlag,
    MessageType,
    Publish,
    Update,
)

FLAG_BITS: Final = 0xFFFF
PUBLISH_BYTES: Final = 8
UPDATE_BYTES: Final = 8 + NODE_ID_BYTES + SLOT_BITMAP_BYTES


def header_of(
    state: NodeState, kind: int, body_bytes: int = 0, count: int = 0, extensions: int = 0, *, force: bool = False
) -> Header:
    """Our header as it is now, for a body of *body_bytes* (R3); *force* asks for votes against a healthy master (R6)."""
    view = state.view
    myself = view.myself
    holder = myself if myself.flags & MASTER else view.nodes.get(myself.replicaof, myself)
    facts = (
        view.current_epoch,
        holder.config_epoch,
        state.offset,
        myself.flags,
        myself.replicaof,
        view.ok,
        view.mf_end_ms,
        myself.id,
    )
    if facts != state.header_facts or holder.slots is not state.slots_seen:
        if holder.slots is not state.slots_seen:
            state.slots_seen = holder.slots
            state.slots_raw = holder.slots.to_bytes(SLOT_BITMAP_BYTES, "little")
        state.header_facts = facts
        state.headers.clear()
    key = (kind, body_bytes, count, extensions, force)
    header = state.headers.get(key)
    if header is None:
        header = state.headers[key] = _build(state, holder, kind, body_bytes, count, extensions, force=force)
    return header


def _build(
    state: NodeState, holder: Peer, kind: int, body_bytes: int, count: int, extensions: int, *, force: bool
) -> Header:
    view, settings = state.view, state.settings
    myself = view.myself
    return Header(
        totlen=HEADER_BYTES + body_bytes,
        port=settings.port,
        type=int(kind),
        count=count,
        current_epoch=view.current_epoch,
        config_epoch=holder.config_epoch,
        offset=state.offset,
        sender=myself.id,
        myslots=state.slots_raw,
        replicaof="" if myself.flags & MASTER else myself.replicaof,
        myip=settings.announce_ip,
        extensions=extensions,
        cport=settings.bus_port,
        flags=myself.flags & FLAG_BITS,
        state=0 if view.ok else 1,
        mflags=bytes((message_flags(state, kind, extensions, force=force), 0, 0)),
    )


def message_flags(state: NodeState, kind: int, extensions: int, *, force: bool) -> int:
    """mflags[0]: PAUSED on a master in a manual failover, FORCEACK, and EXT_DATA as the profile has it (R6)."""
    flags = int(MessageFlag.FORCEACK) if force else 0
    if state.view.mf_end_ms and state.view.myself.flags & MASTER:
        flags |= MessageFlag.PAUSED
    when = state.view.profile.extension_flag
    if extensions or when is ExtensionFlag.ALWAYS or (when is ExtensionFlag.GOSSIP and kind in GOSSIP_TYPES):
        flags |= MessageFlag.EXT_DATA
    return int(flags)


def bare_message(state: NodeState, kind: int, *, force: bool = False) -> Message:
    """AUTH_REQUEST, AUTH_ACK or MFSTART (R13)."""
    return Message(header_of(state, kind, force=force), Empty())


def fail_message(state: NodeState, node_id: str) -> Message:
    """FAIL about a node (R10)."""
    return Message(header_of(state, MessageType.FAIL, NODE_ID_BYTES), Fail(node_id))


def update_message(state: NodeState, owner: Peer) -> Message:
    """UPDATE about the owner of slots, less those that it does not claim any more (R77)."""
    slots = (owner.slots & ~state.view.unclaimed).to_bytes(SLOT_BITMAP_BYTES, "little")
    return Message(header_of(state, MessageType.UPDATE, UPDATE_BYTES), Update(owner.config_epoch, owner.id, slots))


def publish_messages(state: NodeState, channel: bytes, text: bytes, *, sharded: bool) -> tuple[Message, Message]:
    """PUBLISH or PUBLISHSHARD under the full and, for those who can read it, under the light header (R7, R11)."""
    kind = MessageType.PUBLISHSHARD if sharded else MessageType.PUBLISH
    body, size = Publish(channel, text), PUBLISH_BYTES + len(channel) + len(text)
    full = Message(header_of(state, kind, size), body)
    state.headers.clear()  # sizes of messages are endless
    return full, Message(LightHeader(totlen=LIGHT_HEADER_BYTES + size, type=int(kind)), body)


def reads_light(state: NodeState, peer: Peer) -> bool:
    """Whether both sides can do with a light header (R8)."""
    return bool(state.view.profile.capabilities & peer.flags & LIGHT_HEADER_PUBLISH)
