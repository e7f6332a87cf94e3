"""A client that writes and reads all the while in a process of its own: ``python -m tests.benches.steady_client PORT``.

At the end of its input it reads back every write that was acknowledged.
"""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

KEYS: Final = 2000
PAUSE_S: Final = 0.0005


class SteadyClient:
    """The process, seen from the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def end(self) -> dict[str, Any]:
        """Stop it: *written* keys and *lost*, those that do not hold what was acknowledged."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.stdout is not None
        record: dict[str, Any] = json.loads(self._process.stdout.readline())
        return record


@contextmanager
def steady_client(port: int) -> Iterator[SteadyClient]:
    """A client of the cluster of the node at *port*, while the block runs."""
    command = [sys.executable, "-m", "tests.benches.steady_client", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield SteadyClient(process)
    finally:
        process.kill()
        process.wait()


def main(port: int) -> None:
    """Write and read until the input ends."""
    import redis
    from redis.cluster import RedisCluster

    client = RedisCluster(host="127.0.0.1", port=port, socket_timeout=10)
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}
    uncertain: dict[str, set[int]] = {}
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        number += 1
        key = f"{{steady:{chance.randrange(KEYS)}}}"
        try:
            if number % 2:
                client.set(key, number)
                acknowledged[key] = number
                uncertain.pop(key, None)
            else:
                client.get(key)
        except (
            redis.RedisError,
            OSError,
            AttributeError,
        ):  # the last where it is sent to a node that it does not know yet
            if number % 2:
                uncertain.setdefault(key, set()).add(number)
            time.sleep(0.05)
        time.sleep(PAUSE_S)
    lost = []
    for key, value in acknowledged.items():
        held = client.get(key)
        if held is None or int(held) not in {value, *uncertain.get(key, ())}:
            lost.append(key)
    sys.stdout.write(json.dumps({"written": len(acknowledged), "lost": lost}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
