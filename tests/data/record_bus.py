"""Records a failover with everything that can be known of it: ``python -m tests.data.record_bus`` (as root: it captures).

A cluster of three masters and three replicas on loopback; one master is killed, its replica takes over, the dead one comes
back.  Writes ``bus-SERVER-VERSION/``: the packets of the bus, what ``slotscope collect`` was answered, the logs, and what
was done when.  Node ids, ports in use and times are the servers' own and differ in each recording.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.servers import BUS_PORT_STEP, Server, redis_binary, valkey_binary, wait_for
from tests.data.record import HERE

NODE_TIMEOUT_MS = 1000
POLL_SECONDS = 0.25
ETH_P_ALL, ETH_P_IP = 3, 0x0800
PACKET_OUTGOING = 4
SO_TIMESTAMPNS = 35
RECEIVE_BUFFER_BYTES = 64 << 20
PCAP_HEAD = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)


def main() -> int:
    """Record with every server that is installed."""
    if os.geteuid():
        sys.stderr.write("not recorded: capturing needs root\n")
        return 1
    os.environ["TZ"] = "UTC"  # what the logs are written in
    servers = (("bus-valkey-9.1", valkey_binary(), 7101), ("bus-redis-7.0", redis_binary(), 7201))
    for name, binary, first_port in servers:
        if binary is None:
            sys.stderr.write(f"not recorded: the server of {name} is not installed\n")
            continue
        record(binary, first_port, HERE / name)
    return 0


def record(binary: str, first_port: int, folder: Path) -> None:
    """One recording."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    actions: list[dict[str, Any]] = []
    capture = Capture()
    settings = {"cluster_node_timeout": NODE_TIMEOUT_MS, "loglevel": "verbose"}

    def begin(cluster: Cluster) -> None:
        capture.start({node.port + BUS_PORT_STEP for node in cluster.nodes})

    try:
        with (
            running_cluster(binary, masters=3, replicas=3, first_port=first_port, before=begin, **settings) as cluster,
            collecting(cluster.nodes[-1], folder / "polls.jsonl"),
        ):
            nodes = [{"port": node.port, "id": node.call("CLUSTER", "MYID").decode()} for node in cluster.nodes]
            time.sleep(1.5)
            fail_over(cluster, actions)
            time.sleep(1.5)
            version = version_of(cluster.nodes[1])
            capture.stop()
            logs = {node.port: (node.directory / "server.log").read_bytes() for node in cluster.nodes}
    finally:
        capture.stop()
    write(folder / "bus.pcap.gz", PCAP_HEAD + b"".join(capture.records))
    write(folder / "polls.jsonl.gz", (folder / "polls.jsonl").read_bytes())
    (folder / "polls.jsonl").unlink()
    for port, log in logs.items():
        write(folder / "logs" / f"{port}.log.gz", log)
    facts = {"server": version, "node_timeout_ms": NODE_TIMEOUT_MS, "nodes": nodes, "actions": actions}
    (folder / "recording.json").write_text(json.dumps(facts, indent=1) + "\n", "ascii")


def fail_over(cluster: Cluster, actions: list[dict[str, Any]]) -> None:
    """Kill the first master, wait for its replica, start it again, wait until it is a replica."""
    dead, heir = cluster.masters[0], cluster.replicas[0]

    def note(action: str, node: Server) -> None:
        actions.append({"time": time.time_ns(), "action": action, "port": node.port})

    note("kill", dead)
    dead.process.kill()
    dead.process.wait()
    wait_for(lambda: b"role:master" in heir.call("INFO", "replication"), "the replica to take over", 30)
    note("promoted", heir)
    others = [node for node in cluster.nodes if node is not dead]
    wait_for(lambda: all(agrees(node, heir) for node in others), "all to agree", 30)
    time.sleep(1.0)
    note("start", dead)
    with open(dead.directory / "server.log", "ab") as log:
        dead.process = subprocess.Popen(dead.process.args, cwd=dead.directory, stdout=log, stderr=log)
    wait_for(lambda: is_synced(dead), "the old master to follow the new one", 30)
    note("follows", dead)


def agrees(node: Server, heir: Server) -> bool:
    """Whether *node* holds *heir* for the owner of the first slot."""
    owner = topology_of(node).owner_of(0)
    return owner is not None and owner.port == heir.port and b"cluster_state:ok" in node.call("CLUSTER", "INFO")


def is_synced(node: Server) -> bool:
    """Whether *node* is up and replicates."""
    try:
        return b"master_link_status:up" in node.call("INFO", "replication")
    except (OSError, redis.RedisError):
        return False  # not there yet, or still loading


def version_of(node: Server) -> str:
    """``valkey 9.1.2``."""
    info = dict(line.split(":", 1) for line in node.call("INFO", "server").decode().splitlines() if ":" in line)
    return f"valkey {info['valkey_version']}" if "valkey_version" in info else f"redis {info['redis_version']}"


@contextmanager
def collecting(node: Server, out: Path) -> Iterator[None]:
    """``slotscope collect`` inside the block."""
    words = [f"127.0.0.1:{node.port}", "--out", str(out), "--interval", str(POLL_SECONDS)]
    process = subprocess.Popen([sys.executable, "-m", "jobs.main", "collect", *words])
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def write(path: Path, data: bytes) -> None:
    """A gzip file that depends on its content only."""
    path.write_bytes(gzip.compress(data, 9, mtime=0))


class Capture:
    """The TCP packets of some ports on loopback, as records of a pcap file with nanoseconds."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self._ports: set[int] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, ports: set[int]) -> None:
        """Begin; returns when packets are being captured."""
        self._ports = ports
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        link.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        link.bind(("lo", 0))
        link.settimeout(0.2)
        self._thread = threading.Thread(target=self._run, args=(link,), name="capture", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; what arrived is in `records`."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, link: socket.socket) -> None:
        with link:
            while not self._ended.is_set():
                try:
                    data, ancillary, _, address = link.recvmsg(1 << 18, 64)
                except TimeoutError:
                    continue
                if address[2] == PACKET_OUTGOING or not self._is_wanted(data):
                    continue  # loopback shows each packet twice, going out and coming in
                seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
                self.records.append(struct.pack("<IIII", seconds, nanoseconds, len(data), len(data)) + data)

    def _is_wanted(self, data: bytes) -> bool:
        if len(data) < 54 or int.from_bytes(data[12:14]) != ETH_P_IP or data[23] != socket.IPPROTO_TCP:
            return False
        start = 14 + 4 * (data[14] & 15)
        return bool(
            {int.from_bytes(data[start : start + 2]), int.from_bytes(data[start + 2 : start + 4])} & self._ports
        )


if __name__ == "__main__":
    sys.exit(main())
