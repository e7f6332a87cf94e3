"""What a scenario may expect: one function for each condition, true or not at this moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, PFAIL
from cluster_core.sim.host import Host
from cluster_core.sim.scenario.stage import Stage
from cluster_core.wire.bus import TYPE_NAMES

MEASURED_BY_CLIENTS: Final = ("=lost range", "=unavailable range", "=acknowledged range", "=unavailable time =at =most")
"""Conditions of what clients saw: without clients none of them is known to hold."""


def holds_of_cluster(stage: Stage, form: str, values: tuple[Any, ...]) -> bool:
    """Whether the condition of *form* with *values* holds now."""
    if form in MEASURED_BY_CLIENTS and not stage.clients:
        return False
    return CONDITIONS[form](stage, *values)


def _is_master(stage: Stage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and host.node.view.myself.flags & MASTER for host in stage.hosts(names))


def _is_replica(stage: Stage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and not host.node.view.myself.flags & MASTER for host in stage.hosts(names))


def _is_replica_of(stage: Stage, names: tuple[str, ...], verb: str, word: str, master: str) -> bool:
    master_id = stage.host(master).id
    return _is_replica(stage, names, verb, word) and all(
        host.node.view.myself.replicaof == master_id for host in stage.hosts(names)
    )


def _sees(stage: Stage, names: tuple[str, ...], verb: str, targets: tuple[str, ...], word: str) -> bool:
    ids = [host.id for host in stage.hosts(targets)]
    return all(_health(host, node_id) == word for host in stage.hosts(names) for node_id in ids if node_id != host.id)


def _health(host: Host, node_id: str) -> str:
    peer = host.node.view.nodes.get(node_id)
    if peer is None:
        return "gone"
    return "fail" if peer.flags & FAIL else "pfail" if peer.flags & PFAIL else "fine"


def _state(stage: Stage, word: str, names: tuple[str, ...] | None = None) -> bool:
    hosts = stage.world.running() if names is None else stage.hosts(names)
    return all(host.node.view.ok == (word == "ok") for host in hosts if len(host.node.view.nodes) > 1)


def _owns(stage: Stage, name: str, slot: int) -> bool:
    node_id = stage.host(name).id
    for host in stage.world.running():
        owner = host.node.view.owner_of(slot)
        if len(host.node.view.nodes) > 1 and (owner is None or owner.id != node_id):
            return False
    return True


def _knows(stage: Stage, names: tuple[str, ...], verb: str, count: int) -> bool:
    return all(
        sum(not peer.flags & HANDSHAKE for peer in host.node.view.nodes.values()) == count
        for host in stage.hosts(names)
    )


def answers(stage: Stage, names: tuple[str, ...], verb: str, text: str, words: tuple[str, ...]) -> bool:
    """Whether all of them answer a command with a text."""
    return all(text in stage.operators.command(host, words) for host in stage.hosts(names))


def _keys(stage: Stage, name: str, count: int) -> bool:
    return sum(len(keys) for keys in stage.host(name).store.held.values()) == count


def _heard(stage: Stage, name: str, channel: str, wanted: tuple[int, int]) -> bool:
    heard = sum(host.name == name and delivery.channel == channel.encode() for host, delivery in stage.heard)
    return within(heard, wanted)


def traced(stage: Stage, text: str, wanted: tuple[int, int]) -> bool:
    """Whether the trace has a text so often."""
    return within(sum(text in entry.text for entry in stage.trace.entries), wanted)


def logged(stage: Stage, name: str, text: str, wanted: tuple[int, int]) -> bool:
    """Whether the log of a host has a text so often."""
    return within(sum(host == name and text in line for host, line in stage.log.lines), wanted)


def _sent(stage: Stage, kind: str, wanted: tuple[int, int]) -> bool:
    if kind not in TYPE_NAMES:
        return False
    return within(sum(host.node.state.sent[TYPE_NAMES.index(kind)] for host in stage.world.hosts), wanted)


def within(value: int, wanted: tuple[int, int]) -> bool:
    """Whether *value* is between the least and the greatest number of a range."""
    return wanted[0] <= value <= wanted[1]


CONDITIONS: Final[Mapping[str, Callable[..., bool]]] = {
    "nodes =is|are =master|masters": _is_master,
    "nodes =is|are =replica|replicas": _is_replica,
    "nodes =is|are =replica|replicas =of node": _is_replica_of,
    "nodes =see|sees nodes =fail|pfail|fine|gone": _sees,
    "=state =ok|fail": _state,
    "=state =ok|fail =at nodes": _state,
    "=everyone =agrees": lambda stage: not stage.agreement(),
    "=everyone =differs": lambda stage: bool(stage.agreement()),
    "node =owns slot": _owns,
    "node =has count =slots": lambda stage, name, count: stage.host(name).node.view.myself.slots.bit_count() == count,
    "nodes =know|knows count =nodes": _knows,
    "nodes =answer|answers text =to rest": answers,
    "node =holds count =keys": _keys,
    "node =epoch range": lambda stage, name, wanted: within(stage.host(name).node.view.myself.config_epoch, wanted),
    "node =heard text range": _heard,
    "node =logged text range": logged,
    "=trace text range": traced,
    "=sent text range": _sent,
    "=lost range": lambda stage, wanted: within(len(stage.missing().lost), wanted),
    "=unavailable range": lambda stage, wanted: within(len(stage.missing().unavailable), wanted),
    "=acknowledged range": lambda stage, wanted: within(stage.acknowledged, wanted),
    "=unavailable time =at =most": lambda stage, most_us: all(client.down_us <= most_us for client in stage.clients),
}
