"""Records replication with what the servers said of it: ``python -m tests.data.record_psync`` (as root: it captures).

Three servers on loopback: full resyncs from a file and without, short and long interruptions, a chain, a promotion, a
return to the new master, a coordinated FAILOVER, a replica with data of its own; Valkey also over two channels.  Writes
``psync/SERVER-VERSION/``: the packets of the client ports, INFO replication each 100 ms (asked over unix sockets, so that
it is not among the packets), and the order of what was done.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.benches.servers import Server, redis_binary, running, valkey_binary, wait_for
from tests.data.record import HERE
from tests.data.record_bus import PCAP_HEAD, Capture

SAMPLE_SECONDS = 0.1
BACKLOG_BYTES = 16384
"""The least that a server takes."""


def main() -> int:
    """Record with every server that is installed."""
    if os.geteuid():
        sys.stderr.write("not recorded: capturing needs root\n")
        return 1
    for name, binary, first_port in (("redis-7.0", redis_binary(), 7301), ("valkey-9.1", valkey_binary(), 7401)):
        if binary is None:
            sys.stderr.write(f"not recorded: the server of {name} is not installed\n")
            continue
        record(binary, first_port, HERE / "psync" / name)
    return 0


class Stage:
    """Three servers, what is done to them, and what they say."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.steps: list[dict[str, Any]] = []
        self._random = random.Random(7)
        self._links = [redis.Redis(unix_socket_path=str(server.directory / "s.sock")) for server in servers]

    def do(self, number: int, *words: Any) -> None:
        """One command over the unix socket."""
        self.steps.append(
            {"ts_ns": time.time_ns(), "port": self.servers[number].port, "command": [str(w) for w in words]}
        )
        self._links[number].execute_command(*words)

    def info(self, number: int) -> dict[str, Any]:
        """INFO replication, read."""
        return dict(self._links[number].info("replication"))

    def write(self, number: int, count: int, size: int = 20) -> None:
        """Writes of a client over TCP."""
        client = self.servers[number].client()
        for _ in range(count):
            client.set(f"key:{self._random.randrange(30)}", self._random.randbytes(size))
        client.close()

    def follow(self, replica: int, master: int) -> None:
        """REPLICAOF."""
        self.do(replica, "REPLICAOF", "127.0.0.1", self.servers[master].port)

    def wait(self, master: int, *replicas: int) -> None:
        """Until *replicas* are in sync with *master*."""

        def synced() -> bool:
            offset = self.info(master)["master_repl_offset"]
            return all(
                (said := self.info(number)).get("master_link_status") == "up"
                and said["master_port"] == self.servers[master].port
                and said["master_repl_offset"] == offset
                for number in replicas
            )

        wait_for(synced, "the replicas to be in sync")
        time.sleep(0.3)

    def pause(self, number: int, *, resume: bool = False) -> None:
        """Stop a process, or let it go on."""

        self.servers[number].process.send_signal(signal.SIGCONT if resume else signal.SIGSTOP)


def record(binary: str, first_port: int, folder: Path) -> None:
    """One recording."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    capture = Capture()
    settings = {
        "unixsocket": "s.sock", "repl_backlog_size": BACKLOG_BYTES, "repl_ping_replica_period": 1,
        "repl_diskless_sync_delay": 0, "loglevel": "debug",
    }  # fmt: skip
    with ExitStack() as stack:
        ports = [first_port + number for number in range(3)]
        capture.start(set(ports))
        servers = [stack.enter_context(running(binary, port=port, **settings)) for port in ports]
        stage = Stage(servers)
        with sampling(stage) as samples:
            play(stage, is_valkey="valkey" in binary)
            time.sleep(0.3)
        capture.stop()
    with gzip.GzipFile(folder / "resp.pcap.gz", "wb", mtime=0) as file:
        file.write(PCAP_HEAD + b"".join(capture.records))
    with gzip.GzipFile(folder / "info.jsonl.gz", "wb", mtime=0) as file:
        file.write("".join(json.dumps(sample) + "\n" for sample in samples).encode())
    recording = {"ports": ports, "backlog_bytes": BACKLOG_BYTES, "steps": stage.steps}
    (folder / "recording.json").write_text(json.dumps(recording, indent=1) + "\n")


def play(stage: Stage, *, is_valkey: bool) -> None:
    """What happens."""
    stage.write(0, 20)
    stage.do(0, "CONFIG", "SET", "repl-diskless-sync", "no")
    stage.follow(1, 0)
    stage.wait(0, 1)
    stage.do(0, "CONFIG", "SET", "repl-diskless-sync", "yes")
    stage.follow(2, 0)
    stage.wait(0, 1, 2)
    for size, count in ((20, 10), (400, 120)):  # within the backlog, and past it
        stage.pause(2)
        stage.do(0, "CLIENT", "KILL", "TYPE", "replica")
        time.sleep(0.3)
        stage.write(0, count, size)
        stage.pause(2, resume=True)
        stage.wait(0, 1, 2)
    stage.follow(2, 1)
    stage.wait(1, 2)
    stage.do(1, "REPLICAOF", "NO", "ONE")
    stage.write(1, 5)
    stage.wait(1, 2)
    stage.follow(0, 1)
    stage.wait(1, 0, 2)
    stage.do(1, "FAILOVER", "TO", "127.0.0.1", stage.servers[0].port, "TIMEOUT", 5000)
    stage.wait(0, 1)
    stage.wait(1, 2)
    stage.do(1, "REPLICAOF", "NO", "ONE")
    stage.write(1, 5)
    stage.follow(1, 0)  # it has data that its master never had
    stage.wait(0, 1)
    if is_valkey:
        for number in (0, 2):
            stage.do(number, "CONFIG", "SET", "dual-channel-replication-enabled", "yes")
        stage.do(2, "REPLICAOF", "NO", "ONE")
        stage.write(2, 5)
        stage.follow(2, 0)
        stage.wait(0, 2)


@contextmanager
def sampling(stage: Stage) -> Iterator[list[dict[str, Any]]]:
    """Ask every server that is not stopped for INFO replication, until the block ends."""
    found: list[dict[str, Any]] = []
    ended = threading.Event()

    def ask(number: int) -> None:
        server = stage.servers[number]
        link = redis.Redis(unix_socket_path=str(server.directory / "s.sock"))
        link.set_response_callback("INFO", lambda reply, **_: reply)
        while not ended.wait(SAMPLE_SECONDS):
            before = time.time_ns()
            text = link.execute_command("INFO", "replication")
            after = time.time_ns()
            if after - before < 50_000_000:  # else it was stopped
                found.append({"ts_ns": before, "until_ns": after, "port": server.port, "info": text.decode()})

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        found.sort(key=lambda sample: sample["ts_ns"])


if __name__ == "__main__":
    sys.exit(main())
