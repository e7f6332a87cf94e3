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


def holds(stage: Stage, form: str, values: tuple[Any, ...]) -> bool:
    """Whether the condition of *form* with *values* holds now."""
    if form in MEASURED_BY_CLIENTS and not stage.clients:
        return False
    return _CONDITIONS[form](stage, *values)


def _hosts(stage: Stage, names: tuple[str, ...]) -> list[Host]:
    return [host for host in stage.world.hosts if host.name in names]


def _host(stage: Stage, name: str) -> Host:
    return _hosts(stage, (name,))[0]


def _is_master(stage: Stage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and host.node.view.myself.flags & MASTER for host in _hosts(stage, names))


def _is_replica(stage: Stage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and not host.node.view.myself.flags & MASTER for host in _hosts(stage, names))


def _is_replica_of(stage: Stage, names: tuple[str, ...], verb: str, word: str, master: str) -> bool:
    master_id = _host(stage, master).id
    return _is_replica(stage, names, verb, word) and all(
        host.node.view.myself.replicaof == master_id for host in _hosts(stage, names)
    )


def _sees(stage: Stage, names: tuple[str, ...], verb: str, targets: tuple[str, ...], word: str) -> bool:
    ids = [host.id for host in _hosts(stage, targets)]
    return all(_health(host, node_id) == word for host in _hosts(stage, names) for node_id in ids if node_id != host.id)


def _health(host: Host, node_id: str) -> str:
    peer = host.node.view.nodes.get(node_id)
    if peer is None:
        return "gone"
    return "fail" if peer.flags & FAIL else "pfail" if peer.flags & PFAIL else "fine"


def _state(stage: Stage, word: str, names: tuple[str, ...] | None = None) -> bool:
    hosts = stage.world.running() if names is None else _hosts(stage, names)
    return all(host.node.view.ok == (word == "ok") for host in hosts if len(host.node.view.nodes) > 1)


def _owns(stage: Stage, name: str, slot: int) -> bool:
    node_id = _host(stage, name).id
    for host in stage.world.running():
        owner = host.node.view.owner_of(slot)
        if len(host.node.view.nodes) > 1 and (owner is None or owner.id != node_id):
            return False
    return True


def _slots(stage: Stage, name: str, count: int) -> bool:
    return _host(stage, name).node.view.myself.slots.bit_count() == count


def _knows(stage: Stage, names: tuple[str, ...], verb: str, count: int) -> bool:
    return all(
        sum(not peer.flags & HANDSHAKE for peer in host.node.view.nodes.values()) == count
        for host in _hosts(stage, names)
    )


def _answers(stage: Stage, names: tuple[str, ...], verb: str, text: str, words: tuple[str, ...]) -> bool:
    return all(text in stage.operators.command(host, words) for host in _hosts(stage, names))


def _keys(stage: Stage, name: str, count: int) -> bool:
    return sum(len(keys) for keys in _host(stage, name).store.held.values()) == count


def _epoch(stage: Stage, name: str, wanted: tuple[int, int]) -> bool:
    return _within(_host(stage, name).node.view.myself.config_epoch, wanted)


def _heard(stage: Stage, name: str, channel: str, wanted: tuple[int, int]) -> bool:
    heard = sum(host.name == name and delivery.channel == channel.encode() for host, delivery in stage.heard)
    return _within(heard, wanted)


def _trace(stage: Stage, text: str, wanted: tuple[int, int]) -> bool:
    return _within(sum(text in entry.text for entry in stage.trace.entries), wanted)


def _logged(stage: Stage, name: str, text: str, wanted: tuple[int, int]) -> bool:
    return _within(sum(host == name and text in line for host, line in stage.log.lines), wanted)


def _sent(stage: Stage, kind: str, wanted: tuple[int, int]) -> bool:
    if kind not in TYPE_NAMES:
        return False
    return _within(sum(host.node.state.sent[TYPE_NAMES.index(kind)] for host in stage.world.hosts), wanted)


def _unavailable(stage: Stage, most_us: int) -> bool:
    return all(client.down_us <= most_us for client in stage.clients)


def _within(value: int, wanted: tuple[int, int]) -> bool:
    return wanted[0] <= value <= wanted[1]


_CONDITIONS: Final[Mapping[str, Callable[..., bool]]] = {
    "nodes =is|are =master|masters": _is_master,
    "nodes =is|are =replica|replicas": _is_replica,
    "nodes =is|are =replica|replicas =of node": _is_replica_of,
    "nodes =see|sees nodes =fail|pfail|fine|gone": _sees,
    "=state =ok|fail": _state,
    "=state =ok|fail =at nodes": _state,
    "=everyone =agrees": lambda stage: not stage.agreement(),
    "=everyone =differs": lambda stage: bool(stage.agreement()),
    "node =owns slot": _owns,
    "node =has count =slots": _slots,
    "nodes =know|knows count =nodes": _knows,
    "nodes =answer|answers text =to rest": _answers,
    "node =holds count =keys": _keys,
    "node =epoch range": _epoch,
    "node =heard text range": _heard,
    "node =logged text range": _logged,
    "=trace text range": _trace,
    "=sent text range": _sent,
    "=lost range": lambda stage, wanted: _within(len(stage.missing().lost), wanted),
    "=unavailable range": lambda stage, wanted: _within(len(stage.missing().unavailable), wanted),
    "=acknowledged range": lambda stage, wanted: _within(stage.acknowledged, wanted),
    "=unavailable time =at =most": _unavailable,
}
