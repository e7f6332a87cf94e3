"""What a sentinel is answered, and what it answers: opinions, votes, where a master is, operators' commands (S8)."""

from __future__ import annotations

from cluster_core.kinds import Source
from cluster_core.sentinel.commands.patterns import matches
from cluster_core.sentinel.directory import (
    move_master,
    remove_master,
    reset_master,
)
from cluster_core.sentinel.failover import start_failover
from cluster_core.sentinel.instance import Address, Flag, Instance, InstanceLink
from cluster_core.sentinel.monitoring import current_address
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel.votes import vote
from cluster_core.sentinel_history.evidence import CAPTURE, NOTHING, Answered, Asked
from cluster_core.sentinel_history.fold.connections import monitor
from cluster_core.sentinel_history.fold.state import FoldState
from cluster_core.sentinel_history.rows import OpinionRow, VoteRow

_IS_DOWN = (b"IS-MASTER-DOWN-BY-ADDR", b"IS-PRIMARY-DOWN-BY-ADDR")
_WHERE = (b"GET-MASTER-ADDR-BY-NAME", b"GET-PRIMARY-ADDR-BY-NAME")
_ANYBODY = "*"


def _texts(words: tuple[bytes, ...]) -> list[str]:
    return [word.decode("utf-8", "replace") for word in words]


def take_opinion(fold: FoldState, item: Answered, link: InstanceLink) -> tuple[str, Source]:
    """Another sentinel's answer to the question whether a master is down, and its vote (S8)."""
    request, words = _texts(item.request), _texts(item.words)
    if len(request) != 6 or len(words) != 3 or item.kind != "array":
        return NOTHING
    master = fold.master_once_at(request[2], request[3])
    if master is None:
        return NOTHING
    for sentinel in master.sentinels.values():
        if sentinel.link is not link:
            continue
        leader = words[1] if words[1] != _ANYBODY else ""
        note_opinion(fold, sentinel, leading_number(words[0]) == 1, leader, leading_number(words[2]))
    return "opinion", CAPTURE


def note_opinion(fold: FoldState, sentinel: Instance, says_down: bool, leader: str, leader_epoch: int) -> None:
    """*sentinel* said whether the master is down for it, and whom it voted for, if for anybody."""
    sentinel.master_down_reply_ms = fold.state.now_ms
    if says_down is not bool(sentinel.flags & Flag.MASTER_DOWN) and sentinel.master is not None:
        fold.opinions.append(OpinionRow(fold.now_ns, fold.observer, sentinel.name, sentinel.master.name, says_down))
    sentinel.flags = sentinel.flags | Flag.MASTER_DOWN if says_down else sentinel.flags & ~Flag.MASTER_DOWN
    if leader:
        sentinel.leader, sentinel.leader_epoch = leader, leader_epoch


def take_asked(fold: FoldState, item: Asked) -> tuple[str, Source]:
    """A SENTINEL command that somebody sent it, with its answer."""
    request, words = _texts(item.request), _texts(item.words)
    if len(request) < 2:
        return NOTHING
    name = request[1].upper().encode()
    if name in _IS_DOWN and len(request) == 6 and len(words) == 3:
        return _says(fold, item, request, words)
    if name in _WHERE and len(request) == 3 and len(words) == 2 and words[1].isdigit():
        return _names(fold, request[2], Address(words[0], leading_number(words[1])))
    is_ok = (item.kind == "simple" and words[:1] == ["OK"]) or item.kind == "number"
    if is_ok and not fold.is_told:
        return _ordered(fold, name, request)
    return NOTHING


def _says(fold: FoldState, item: Asked, request: list[str], words: list[str]) -> tuple[str, Source]:
    """It answers whether the master is down for it, and with its vote."""
    master = fold.master_at(request[2], request[3])
    if master is None:
        return NOTHING
    epoch, candidate, is_down = leading_number(request[4]), request[5], leading_number(words[0]) == 1
    if not fold.is_told and (is_down or not fold.state.tilt):
        fold.mark_down(master, is_down)
    if candidate != _ANYBODY:
        granted, granted_epoch = words[1], leading_number(words[2])
        if not fold.is_told:
            vote(fold.state, master, epoch, candidate)
        if granted != _ANYBODY:
            master.leader, master.leader_epoch = granted, granted_epoch
        fold.votes.append(
            VoteRow(
                item.ts_ns, fold.observer, candidate, master.name, epoch, granted, granted_epoch, is_down, CAPTURE
            )
        )  # fmt: skip
    return "own answer", CAPTURE


def _names(fold: FoldState, name: str, address: Address) -> tuple[str, Source]:
    """It tells a client where the master is."""
    master = fold.state.masters.get(name)
    if master is None:
        monitor(fold, name, address)
    elif current_address(master) != address and not fold.is_told and not master.flags & Flag.FAILOVER_IN_PROGRESS:
        move_master(fold.state, master, address)
    return "own answer", CAPTURE


def _ordered(fold: FoldState, name: bytes, request: list[str]) -> tuple[str, Source]:
    """An operator's command that was carried out, over a connection that is captured."""
    state = fold.state
    master = state.masters.get(request[2]) if len(request) > 2 else None
    match name:
        case b"MONITOR" if len(request) == 6 and master is None:
            address = Address(request[3], leading_number(request[4]))
            monitor(fold, request[2], address, max(leading_number(request[5]), 0))
        case b"REMOVE" if master is not None:
            remove_master(state, master)
        case b"RESET" if len(request) == 3:
            for one in list(state.masters.values()):
                if matches(request[2].encode(), one.name.encode()):
                    reset_master(state, one)
        case b"FAILOVER" if master is not None and not master.flags & Flag.FAILOVER_IN_PROGRESS:
            start_failover(state, master)
            master.flags |= Flag.FORCE_FAILOVER
        case _:
            return NOTHING
    return "command", CAPTURE
