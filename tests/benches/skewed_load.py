"""Much skewed data in a cluster, fast: a weight a slot, the first third of the slots heavier, sizes log-normal."""

from __future__ import annotations

import random
import socket
from typing import Final

from cluster_core.rdb.export import command_of
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from tests.benches.clusters import Cluster, topology_of
from tests.benches.simulated_cluster import tags

WEIGHT_MAX: Final = 40.0
FIRST_THIRD: Final = 1.8
VALUE_BYTES_MAX: Final = 4000
TOGETHER: Final = 200


def load_skewed(cluster: Cluster, keys: int, seed: int = 1) -> None:
    """Set *keys* keys, each at the master that owns its slot."""
    chance = random.Random(seed)
    weights = [
        min(chance.paretovariate(1.6), WEIGHT_MAX) * (FIRST_THIRD if slot < SLOT_COUNT // 3 else 1)
        for slot in range(SLOT_COUNT)
    ]
    blob = chance.randbytes(VALUE_BYTES_MAX)
    topology = topology_of(cluster.masters[0])
    owners = topology.slot_map().owners()
    links = {node.id: socket.create_connection(("127.0.0.1", node.port)) for node in topology.masters()}
    pending: dict[str, list[bytes]] = {name: [] for name in links}
    for number, slot in enumerate(chance.choices(range(SLOT_COUNT), weights, k=keys)):
        size = min(int(chance.lognormvariate(5, 0.7)), VALUE_BYTES_MAX)
        key = b"{%s}:%d" % (tags()[slot], number)
        owner = str(owners[slot])
        pending[owner].append(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, size, blob[:size]))
        if len(pending[owner]) == TOGETHER:
            _send(links[owner], pending[owner])
    for owner, link in links.items():
        _send(link, pending[owner])
        link.close()


def _send(link: socket.socket, commands: list[bytes]) -> None:
    """Send *commands* and wait for their answers, which are one line each."""
    link.sendall(b"".join(commands))
    left = len(commands)
    commands.clear()
    while left:
        answer = link.recv(1 << 16)
        if not answer or b"-" in answer:
            raise ConnectionError(answer[:100])
        left -= answer.count(b"\n")


def load_hot_tag(cluster: Cluster, keys: int, *, tagged: int, sorted_sets: int, members: int, seed: int = 3) -> None:
    """Set *keys* keys in all: *tagged* of them under ``{tenant:acme}``, *sorted_sets* large ones, the rest strings of all sizes."""
    chance = random.Random(seed)
    blob = chance.randbytes(VALUE_BYTES_MAX)
    topology = topology_of(cluster.masters[0])
    owners = topology.slot_map().owners()
    links = {node.id: socket.create_connection(("127.0.0.1", node.port)) for node in topology.masters()}
    pending: dict[str, list[bytes]] = {name: [] for name in links}

    def add(key: bytes, *arguments: bytes) -> None:
        command, *rest = arguments
        owner = str(owners[key_slot(key)])
        pending[owner].append(command_of(command, key, *rest))
        if len(pending[owner]) >= TOGETHER:
            _send(links[owner], pending[owner])

    for number in range(tagged):
        add(b"{tenant:acme}:doc:%d" % number, b"SET", blob[:440])
    for number in range(keys - tagged - sorted_sets):
        add(b"user:%d" % number, b"SET", blob[: min(int(chance.lognormvariate(5.3, 0.7)), VALUE_BYTES_MAX)])
    for number in range(sorted_sets):
        key = b"board:%d" % number
        for start in range(0, members, 1000):
            pairs = [
                word
                for n in range(start, min(start + 1000, members))
                for word in (b"%d" % chance.randrange(10**6), b"player:%d" % n)
            ]
            add(key, b"ZADD", *pairs)
    for owner, link in links.items():
        _send(link, pending[owner])
        link.close()
