"""Which connections make up the links of a sentinel: seen from their packets (sentinelReconnectInstance, instanceLink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cluster_core.sentinel.instance import SENTINEL, Instance
from cluster_core.sentinel.state import Connection
from cluster_core.sentinel_history import own_words
from cluster_core.sentinel_history.evidence import CAPTURE, PUBSUB, WHOLE, Linked, Unlinked

if TYPE_CHECKING:
    from cluster_core.sentinel_history.fold import SentinelFold

WAITING_MAX: Final = 8
"""Connections to an address of which no instance is known."""


def take_linked(fold: SentinelFold, item: Linked) -> tuple[str, str]:
    found = fold.at(item.target)
    takers = _takers(found, item.purpose)
    if not takers:  # of an instance that is not known yet
        waiting = fold.waiting.setdefault(item.target, [])
        waiting.append(item)
        del waiting[:-WAITING_MAX]
        if found:
            fold.links[item.connection] = found[0].link
        return "", ""
    for instance in takers:
        fold.touch(instance.master or instance)
        link = instance.link
        if item.purpose in (PUBSUB, WHOLE):
            link.pubsub = item.connection + 1  # 0 is none
        if item.purpose != PUBSUB:
            link.command = item.connection + 1
        link.reconnected_ms = fold.state.now_ms
        link.disconnected = not (link.command and (link.pubsub or instance.flags & SENTINEL))
        fold.links[item.connection] = link
        is_pubsub = item.purpose == PUBSUB
        fold.state.connections[item.connection + 1] = Connection(link, instance, is_pubsub)
    return "connection", CAPTURE


def _takers(found: list[Instance], purpose: str) -> list[Instance]:
    """Of the records of an address, those whose link lacks such a connection: the first one, and who shares its link."""
    lacking = [one for one in found if not (one.link.pubsub if purpose == PUBSUB else one.link.command)]
    return [one for one in found if one.link is lacking[0].link] if lacking else []


def take_unlinked(fold: SentinelFold, item: Unlinked) -> tuple[str, str]:
    fold.state.connections.pop(item.connection + 1, None)
    link = fold.links.pop(item.connection, None)
    for address, waiting in list(fold.waiting.items()):
        fold.waiting[address] = [one for one in waiting if one.connection != item.connection]
    if link is None:
        return "", ""
    fold.touch(*(one.master or one for one in fold.instances() if one.link is link))
    if item.is_own and not fold.is_told:
        own_words.take_closed(fold, link)
    if link.command == item.connection + 1:
        link.command, link.disconnected = 0, True
    if link.pubsub == item.connection + 1:
        link.pubsub, link.disconnected = 0, True
    return "connection", CAPTURE


def adopt_links(fold: SentinelFold) -> None:
    """Connections that began before their instance was known are those of the instance."""
    if fold.waiting:
        for instance in list(fold.instances()):
            for item in fold.waiting.pop(instance.address, []):
                take_linked(fold, item)
