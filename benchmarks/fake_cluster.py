"""A cluster that is only told of: one thread answers on a port for every master what redis-cli asks before it plans.

redis-cli plans from CLUSTER NODES and INFO alone (`clusterManagerLoadInfoFromNode` in redis-cli.c), so that thousands of masters fit
into one process; nothing is ever moved.
"""

from __future__ import annotations

import re
import selectors
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.measure import RunError
from cluster_core.slots.slot_set import SlotSet
from cluster_core.wire.resp import decode_values

INFO = b"# Server\r\nredis_version:7.0.15\r\n# Cluster\r\ncluster_enabled:1\r\n# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n"
SECONDS_MAX = 300
RECEIVE_BYTES = 65536
_MOVING = re.compile(r"Moving (\d+) slots from (\S+) to (\S+)")


class FakeCluster:
    """Masters that own slots by *owner* (a master's number a slot); `ports` are theirs."""

    def __init__(self, owner: Sequence[int], masters: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.ports: list[int] = []
        for number in range(masters):
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setblocking(False)
            self.ports.append(listener.getsockname()[1])
            self._selector.register(listener, selectors.EVENT_READ, (number, True))
        self.names = [f"{number:040x}" for number in range(masters)]
        held: list[list[int]] = [[] for _ in range(masters)]
        for slot, number in enumerate(owner):
            held[number].append(slot)
        self._lines = [
            f"{name} 127.0.0.1:{port}@{port % 50000 + 10000} {{flags}} - 0 0 {number + 1} connected"
            + "".join(f" {a}" if a == b else f" {a}-{b}" for a, b in SlotSet(held[number]).ranges())
            for number, (name, port) in enumerate(zip(self.names, self.ports, strict=True))
        ]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @contextmanager
    def running(self) -> Iterator[FakeCluster]:
        """Answer as long as the block lasts."""
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            self._selector.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(0.05):
                number, is_listener = key.data
                if is_listener:
                    connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    self._selector.register(connection, selectors.EVENT_READ, (number, False))
                    continue
                data = key.fileobj.recv(RECEIVE_BYTES)  # type: ignore[union-attr]
                if not data:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                    continue
                for command in decode_values(data):
                    reply = self._answer(number, [word.upper() for word in command])
                    key.fileobj.sendall(b"$%d\r\n%b\r\n" % (len(reply), reply))  # type: ignore[union-attr]

    def _answer(self, number: int, command: list[bytes]) -> bytes:
        if command[:2] == [b"CLUSTER", b"NODES"]:
            flags = ["myself,master" if number == n else "master" for n in range(len(self._lines))]
            text = "\n".join(line.format(flags=flag) for line, flag in zip(self._lines, flags, strict=True))
            return text.encode() + b"\n"
        return INFO if command[:1] == [b"INFO"] else b"OK"


def simulate_rebalance(redis_cli: str, owner: Sequence[int], masters: int, drained: Sequence[int] = ()) -> list[int]:
    """Return the owners after what *redis_cli* would do: from each source its lowest slots, as it takes them.

    *drained* masters get weight 0, which is how redis-cli is asked to empty them.

    Raises RunError when it fails or says nothing that can be read.
    """
    with FakeCluster(owner, masters).running() as cluster:
        done = subprocess.run(
            [redis_cli, "--cluster", "rebalance", f"127.0.0.1:{cluster.ports[0]}", "--cluster-simulate",
             "--cluster-use-empty-masters",
             *(["--cluster-weight", *[f"{cluster.names[n]}=0" for n in drained]] if drained else [])],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
    moves = _MOVING.findall(done.stdout)
    if not moves and "No rebalancing needed" not in done.stdout:
        raise RunError(f"redis-cli --cluster rebalance: {(done.stderr or done.stdout).strip()[-200:]}")
    number = {f"127.0.0.1:{port}": n for n, port in enumerate(cluster.ports)}
    at = list(owner)
    held: list[list[int]] = [[] for _ in range(masters)]
    for slot, n in enumerate(owner):
        held[n].append(slot)
    for count, source, target in moves:
        for _ in range(int(count)):
            at[held[number[source]].pop(0)] = number[target]
    return at
