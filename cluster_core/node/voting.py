"""Answering those who ask for our vote: grant, or refuse with the server's reason (R90, R91, R95, R160)."""

from __future__ import annotations

from cluster_core.gossip.causes import Refusal
from cluster_core.gossip.view import Peer, slot_bits
from cluster_core.gossip.votes import VOTE_SPACING_FACTOR, note_vote
from cluster_core.node.events import VoteCast
from cluster_core.node.headers import bare_message, update_message
from cluster_core.node.state import TODO_FSYNC, TODO_SAVE, NodeState, named
from cluster_core.wire.bus import Header, MessageType


def answer_request(state: NodeState, candidate: Peer, header: Header, refusal: Refusal) -> None:
    """Vote for *candidate* or not; a vote without a link is spent all the same (R90)."""
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
    """What the server's log says behind "denied to"; nothing if we do not vote at all (R91)."""
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
    """The first claimed slot whose owner has a greater epoch than the request, and that owner (R90)."""
    claimed = slot_bits(header.myslots) & ~state.view.unclaimed
    first, found = -1, None
    for owner in state.view.nodes.values():
        disputed = owner.slots & claimed if owner.config_epoch > header.config_epoch else 0
        if disputed:
            slot = (disputed & -disputed).bit_length() - 1
            if found is None or slot < first:
                first, found = slot, owner
    return first, found
