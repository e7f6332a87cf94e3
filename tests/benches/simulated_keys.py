"""A simulated server that answers what measuring asks of keys, on a clock of its own: as many keys as fit in a test, no process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster_core.incidents.symptoms import Checkup
from cluster_core.wire.resp import RespError
from slotscope.servers.node_link import Address
from slotscope.servers.visits import Visit

COMMAND_S = 10e-6


@dataclass(slots=True)
class Clock:
    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass(slots=True)
class SimulatedKeys:
    """Keys with type and size by name; stands for the paced link of a `Visit`."""

    keys: Mapping[bytes, tuple[str, int]]
    clock: Clock
    seed: int = 1
    is_local: bool = True
    together: int = 400
    due_s: float = 0.0
    command_s: float = COMMAND_S
    sent: Counter[str] = field(default_factory=Counter)
    names: list[bytes] = field(default_factory=list)
    chance: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.names = list(self.keys)
        self.chance.shuffle(self.names)

    def ask(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        self.clock.now_s += self.command_s * len(commands)
        return [self._reply(*arguments) for arguments in commands]

    def close(self) -> None:
        """Nothing is open."""

    def _reply(self, name: str, *arguments: Any) -> Any:
        self.sent[name] += 1
        if name == "RANDOMKEY":
            return self.chance.choice(self.names)
        if name == "SCAN":
            return self._scan(*arguments)
        if name == "MEMORY":
            return self.keys[arguments[1]][1]
        if name == "TYPE":
            return self.keys[arguments[0]][0].encode()
        return RespError(f"ERR unknown command {name}")

    def _scan(self, cursor: Any, _: str, count: int, __: str = "", kind: str = "") -> list[Any]:
        start = int(cursor)
        end = min(start + count, len(self.names))
        named = [key for key in self.names[start:end] if not kind or self.keys[key][0] == kind]
        return [b"%d" % (0 if end == len(self.names) else end), named]

    @property
    def memory_bytes(self) -> int:
        """What MEMORY USAGE of all keys adds up to."""
        return sum(size for _, size in self.keys.values())

    def info(self) -> dict[str, str]:
        """What INFO says: beside keys, what servers were seen to keep."""
        startup = 1_600_000
        beside = len(self.keys) * self.chance.randrange(8, 40) + self.chance.randrange(200_000, 1_500_000)
        return {
            "used_memory_startup": str(startup),
            "used_memory": str(startup + self.memory_bytes + beside),
            "db0": f"keys={len(self.keys)},expires=0,avg_ttl=0",
        }

    def visit(self) -> Visit:
        """This server as one that was visited."""
        return Visit(Address("10.0.0.1", 6379), Checkup("10.0.0.1:6379", info=self.info()), self)  # type: ignore[arg-type]
