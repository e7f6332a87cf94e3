"""Which connections make up the links of a sentinel: seen from their packets (sentinelReconnectInstance, instanceLink)."""

from __future__ import annotations

from typing import Final

from cluster_core.kinds import Source
from cluster_core.sentinel.directory import add_master, remove_master
from cluster_core.sentinel.instance import Address, Flag, Instance, InstanceLink
from cluster_core.sentinel.state import Connection
from cluster_core.sentinel_history.evidence import CAPTURE, NOTHING, PUBSUB, WHOLE, Linked, Unlinked
from cluster_core.sentinel_history.fold.state import FoldState

MASTERS_MAX: Final = 1000
"""A sentinel that is said to watch more of them is a fake: the oldest are given up."""
WAITING_MAX: Final = 8
"""Connections to an address of which no instance is known."""


def take_linked(fold: FoldState, item: Linked) -> tuple[str, Source]:
    found = fold.at(item.target)
    takers = _takers(found, item.purpose)
    if not takers:  # of an instance that is not known yet
        waiting = fold.waiting.setdefault(item.target, [])
        waiting.append(item)
        del waiting[:-WAITING_MAX]
        if found:
            fold.links[item.connection] = found[0].link
        return NOTHING
    for instance in takers:
        fold.touch(instance.master or instance)
        link = instance.link
        if item.purpose in (PUBSUB, WHOLE):
            link.pubsub = item.connection + 1  # 0 is none
        if item.purpose != PUBSUB:
            link.command = item.connection + 1
        link.reconnected_ms = fold.state.now_ms
        link.disconnected = not (link.command and (link.pubsub or instance.flags & Flag.SENTINEL))
        fold.links[item.connection] = link
        is_pubsub = item.purpose == PUBSUB
        fold.state.connections[item.connection + 1] = Connection(link, instance, is_pubsub)
    return "connection", CAPTURE


def _takers(found: list[Instance], purpose: str) -> list[Instance]:
    """Of the records of an address, those whose link lacks such a connection: the first one, and who shares its link."""
    lacking = [one for one in found if not (one.link.pubsub if purpose == PUBSUB else one.link.command)]
    return [one for one in found if one.link is lacking[0].link] if lacking else []


def release_link(fold: FoldState, item: Unlinked) -> InstanceLink | None:
    """The connection ended: return the link that it was part of, if it is known of whom."""
    fold.state.connections.pop(item.connection + 1, None)
    link = fold.links.pop(item.connection, None)
    for address, waiting in list(fold.waiting.items()):
        fold.waiting[address] = [one for one in waiting if one.connection != item.connection]
    if link is not None:
        fold.touch(*(one.master or one for one in fold.instances() if one.link is link))
    return link


def mark_lost(link: InstanceLink, connection: int) -> None:
    """A link lacks this connection now."""
    if link.command == connection + 1:
        link.command, link.disconnected = 0, True
    if link.pubsub == connection + 1:
        link.pubsub, link.disconnected = 0, True


def adopt_links(fold: FoldState) -> None:
    """Connections that began before their instance was known are those of the instance."""
    if fold.waiting:
        for instance in list(fold.instances()):
            for item in fold.waiting.pop(instance.address, []):
                take_linked(fold, item)


def monitor(fold: FoldState, name: str, address: Address, quorum: int = 0) -> Instance:
    """Begin to monitor a master; connections that are there already are its own."""
    while len(fold.state.masters) >= MASTERS_MAX:
        oldest = next(iter(fold.state.masters.values()))
        remove_master(fold.state, oldest)
        fold.log.note(fold.now_ns, oldest.name, (), "too many", CAPTURE)
    master = add_master(fold.state, name, address, quorum or fold.default_quorum or 0)
    adopt_links(fold)
    return master
