"""Reactions of a node to view changes: send, save, log, replicate, start elections (R41, R54, R70 to R80, R90 to R99)."""

from __future__ import annotations

from typing import assert_never

from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Cause, Field, Refusal, ReportEnd
from cluster_core.gossip.epochs import VOTE_SPACING_FACTOR, note_vote
from cluster_core.gossip.events import Changed, Effect, MessageReceived
from cluster_core.gossip.flags import FAIL, MASTER, PFAIL
from cluster_core.gossip.handshake import drop_link
from cluster_core.gossip.view import Peer, slot_bits
from cluster_core.node.agenda import make_all_due, make_due
from cluster_core.node.candidacy import count_vote, yield_to_rival
from cluster_core.node.events import DropKeys, VoteCast
from cluster_core.node.pings import bare_message, broadcast, fail_message, update_message
from cluster_core.node.promotion import (
    became_replica,
    begin_as_master,
    note_master_health,
    note_paused_offset,
    start_replication,
)
from cluster_core.node.state import TODO_FAILOVER, TODO_FSYNC, TODO_PONG, TODO_SAVE, NodeState, named
from cluster_core.wire.bus import Header, MessageType


def answer_request(state: NodeState, candidate: Peer, header: Header, refusal: Refusal) -> None:
    """Grant or refuse a vote to *candidate*; a vote without a link is lost (R90)."""
    epoch = header.current_epoch
    state.out.append(VoteCast(candidate.id, epoch, refusal))
    if refusal:
        text = refusal_text(state, candidate, header, refusal)
        if text:
            state.log("#", f"Failover auth denied to {text}")
        if refusal is Refusal.GREATER_SLOT_EPOCH and state.view.profile.refusal_updates:
            _, owner = disputed_slot(state, header)
            if owner is not None and candidate.outbound is not None:
                state.send(candidate.outbound, update_message(state, owner))
        return
    note_vote(state.view, candidate, state.now_ms)
    state.todo |= TODO_SAVE | TODO_FSYNC
    if candidate.outbound is not None:
        state.send(candidate.outbound, bare_message(state, MessageType.AUTH_ACK))
    state.log("*", f"Failover auth granted to {named(state, candidate.id)} for epoch {state.view.current_epoch}")


def refusal_text(state: NodeState, candidate: Peer, header: Header, refusal: Refusal) -> str:
    """Return the log text after "denied to"; empty if we never vote (R91)."""
    view, word = state.view, state.view.profile.word_for_master
    epoch, name = header.current_epoch, named(state, candidate.id)
    in_epoch = f"{name} for epoch {epoch}" if word == "primary" else name
    master = view.master_of(candidate)
    match refusal:
        case Refusal.OLD_EPOCH:
            return f"{name}: reqEpoch ({epoch}) < curEpoch({view.current_epoch})"
        case Refusal.ALREADY_VOTED:
            return f"{name}: already voted for epoch {view.current_epoch}"
        case Refusal.IS_A_MASTER:
            return f"{in_epoch}: it is a {word} node"
        case Refusal.UNKNOWN_MASTER:
            return f"{in_epoch}: I don't know its {word}"
        case Refusal.MASTER_IS_UP:
            return f"{in_epoch}: its {word} is up"
        case Refusal.TOO_SOON:
            voted_ms = master.voted_time_ms if master is not None else 0
            rest_ms = VOTE_SPACING_FACTOR * view.node_timeout_ms - (state.now_ms - voted_ms)
            return f"{name}: can't vote about this {word} before {rest_ms} milliseconds"
        case Refusal.GREATER_SLOT_EPOCH:
            slot, owner = disputed_slot(state, header)
            known = owner.config_epoch if owner is not None else 0
            return f"{name}: slot {slot} epoch ({known}) > reqEpoch ({header.config_epoch})"
    return ""


def disputed_slot(state: NodeState, header: Header) -> tuple[int, Peer | None]:
    """Return the first claimed slot with an owner of a greater epoch, and that owner (R90)."""
    claimed = slot_bits(header.myslots) & ~state.view.unclaimed
    first, claimant = -1, None
    for owner in state.view.nodes.values():
        disputed = owner.slots & claimed if owner.config_epoch > header.config_epoch else 0
        if disputed:
            slot = (disputed & -disputed).bit_length() - 1
            if claimant is None or slot < first:
                first, claimant = slot, owner
    return first, claimant


Trigger = MessageReceived | None
"""The message behind a view change; None for time or a command."""


def react(state: NodeState, changes: list[Effect], trigger: Trigger) -> None:
    """React to *changes* in order and pass on public effects; keys in lost slots are deleted unless replaced (R74)."""
    for change in changes:
        _react(state, change, trigger)
        if type(change) is belief.SlotsLost and not any(type(other) is belief.BecameReplica for other in changes):
            state.out.append(DropKeys(change.slots))


def _react(state: NodeState, change: Effect, trigger: Trigger) -> None:
    match change:
        case belief.ReplyPong():
            _answer(state, change)
        case belief.Changed():
            _changed(state, change, trigger)
        case belief.ReportAdded() | belief.ReportRemoved():
            _reported(state, change)
        case belief.StateChanged():
            state.log("*" if change.ok else "#", f"Cluster state changed: {'ok' if change.ok else 'fail'}")
            state.out.append(change)
        case belief.NodeAdded() | belief.NodeRemoved() | belief.NodeRenamed():
            _membership(state, change)
        case belief.BroadcastFail():  # R54: quorum reached, broadcast
            broadcast(state, fail_message(state, change.node))
        case belief.VoteAsked():
            _vote(state, change, trigger)
        case belief.AckHeard():
            count_vote(state, change.voter, change.epoch, counts=change.counts)
        case belief.SendUpdate():
            _correct(state, change)
        case belief.EpochBumped():
            _bumped(state, change, trigger)
        case belief.SlotsLost():  # R70: another master took slots of ours
            state.out.append(change)
            state.todo |= TODO_SAVE | TODO_FSYNC
        case belief.BecameReplica():
            _follow(state, change)
        case belief.CloseLink():
            _close(state, change)
        case belief.ManualFailoverMarked():
            _switch(state, change, trigger)
        case belief.Ignored():
            state.out.append(change)
        case _:
            assert_never(change)


def _sender_of(state: NodeState, trigger: Trigger) -> Peer | None:
    """Return the node that sent the message, None if unknown."""
    link = state.view.links.get(trigger.link) if trigger is not None else None
    if link is not None and link.node is not None:
        return state.view.nodes.get(link.node)
    header = trigger.message.header if trigger is not None else None
    return state.view.nodes.get(header.sender) if isinstance(header, Header) else None


def _answer(state: NodeState, effect: belief.ReplyPong) -> None:
    if effect.message is not None and effect.link in state.view.links:
        state.send(effect.link, effect.message)


def _correct(state: NodeState, effect: belief.SendUpdate) -> None:
    """Send an UPDATE for stale slots (R76)."""
    sender, owner = state.view.nodes.get(effect.to), state.view.nodes.get(effect.about)
    if sender is None or owner is None:
        return
    text = f"has old slots configuration, sending an UPDATE message about {named(state, owner.id)}"
    state.log("-", f"Node {named(state, sender.id)} {text}")
    if sender.outbound is not None:
        state.send(sender.outbound, update_message(state, owner))


def _close(state: NodeState, effect: belief.CloseLink) -> None:
    drop_link(state.view, effect.link)
    state.fit_version = -1
    make_all_due(state)
    state.out.append(effect)


def _vote(state: NodeState, effect: belief.VoteAsked, trigger: Trigger) -> None:
    candidate = state.view.nodes.get(effect.candidate)
    header = trigger.message.header if trigger is not None else None
    if candidate is not None and isinstance(header, Header):
        answer_request(state, candidate, header, effect.refusal)


def _switch(state: NodeState, effect: belief.ManualFailoverMarked, trigger: Trigger) -> None:
    """Advance a manual failover, ours or our replica's (R98, R99)."""
    if effect.mark == "paused":
        note_paused_offset(state, effect.offset)
        return
    replica = state.view.nodes.get(effect.node)
    if replica is not None and trigger is not None:
        begin_as_master(state, replica, trigger.link)
        state.out.append(effect)


def _follow(state: NodeState, effect: belief.BecameReplica) -> None:
    """Follow another master after losing slots or ours (R67, R73)."""
    name = named(state, effect.master)
    if effect.cause is Cause.MASTER_OF_REPLICA:
        state.log("#", f"I'm a sub-replica! Reconfiguring myself as a replica of {name}")
    elif effect.cause is Cause.SLOTS_LOST:
        state.log("#", f"Configuration change detected. Reconfiguring myself as a replica of {name}")
    state.out.append(effect)
    master = state.view.nodes.get(effect.master)
    if master is not None:
        became_replica(state, master)


def _bumped(state: NodeState, effect: belief.EpochBumped, trigger: Trigger) -> None:
    """Save a new epoch durably (R79, R80)."""
    if effect.cause is Cause.EPOCH_COLLISION:
        sender = _sender_of(state, trigger)
        name = named(state, sender.id) if sender is not None else ""
        mark = "" if state.view.profile.names_logged else "WARNING: "
        state.log("-", f"{mark}configEpoch collision with node {name}. configEpoch set to {effect.epoch}")
    else:
        state.log("*", f"New configEpoch set to {effect.epoch}")
    state.out.append(effect)
    state.todo |= TODO_SAVE | TODO_FSYNC
    if effect.cause is Cause.EPOCH_COLLISION and state.view.profile.bumps_announced:
        state.todo |= TODO_PONG


def _membership(state: NodeState, effect: belief.NodeAdded | belief.NodeRemoved | belief.NodeRenamed) -> None:
    if isinstance(effect, belief.NodeRenamed):
        peer = state.view.nodes.get(effect.new)
        if peer is not None:
            make_due(state, peer)
            state.log(".", f"Handshake with node {named(state, effect.new)} completed.")
    elif isinstance(effect, belief.NodeAdded):
        make_all_due(state)
    else:
        state.log(".", f"Deleting node {effect.node} from cluster view")
    state.out.append(effect)
    state.todo |= TODO_SAVE


def _reported(state: NodeState, effect: belief.ReportAdded | belief.ReportRemoved) -> None:
    reporter, subject = named(state, effect.reporter), named(state, effect.subject)
    if isinstance(effect, belief.ReportAdded):
        state.log("-", f"Node {reporter} reported node {subject} as not reachable.")
    elif effect.reason is ReportEnd.WITHDRAWN:
        state.log("-", f"Node {reporter} reported node {subject} is back online.")
    state.out.append(effect)


def _changed(state: NodeState, effect: Changed, trigger: Trigger) -> None:
    """React to a changed health, address, epoch, role or slots."""
    state.out.append(effect)
    peer = state.view.nodes.get(effect.node)
    if peer is None:
        return
    what = effect.what
    if what is Field.FAIL:
        _health_changed(state, peer, effect.cause, trigger)
    elif what is Field.ADDRESS and effect.node == state.view.myself.replicaof:
        start_replication(state, peer)
    elif what is Field.CONFIG_EPOCH and peer is not state.view.myself:
        yield_to_rival(state, peer)
    if what is not Field.PFAIL or not peer.flags & PFAIL:
        state.todo |= TODO_SAVE | (TODO_FSYNC if what is Field.CONFIG_EPOCH else 0)


def _health_changed(state: NodeState, peer: Peer, cause: Cause, trigger: Trigger) -> None:
    """React to FAIL set or cleared (R54, R55, R55b, R58)."""
    view = state.view
    name, failed = named(state, peer.id), bool(peer.flags & FAIL)
    if not failed:
        word = view.profile.word_for_master
        kind = f"{word} without slots is" if peer.flags & MASTER else "replica is"
        reachable = "is reachable again and nobody is serving its slots after some time."
        text = reachable if peer.votes else f"{kind} reachable again."
        state.log("*", f"Clear FAIL state for node {name}: {text}")
    elif cause is Cause.QUORUM:
        state.log("*", f"Marking node {name} as failing (quorum reached).")
    elif cause is Cause.FAIL_MESSAGE:
        sender = _sender_of(state, trigger)
        by = named(state, sender.id) if sender is not None else ""
        state.log("*", f"FAIL message received from {by} about {name}")
    elif cause is Cause.OTHER_ID_ANSWERS:
        broadcast(state, fail_message(state, peer.id))
    make_due(state, peer)
    if view.myself.replicaof == peer.id:
        note_master_health(state, failed=failed)
        if failed and view.profile.best_replica_hurries:
            state.todo |= TODO_FAILOVER
