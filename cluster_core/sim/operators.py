"""What people and their tools do to a cluster: commands, MEET, moving a slot (R56, R123, R124)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from cluster_core.gossip.flags import MASTER
from cluster_core.sim.host import Host
from cluster_core.sim.servers.store import WRITE_BYTES
from cluster_core.sim.world import World
from cluster_core.wire.resp import RespError

STEP_US: Final = 20_000
"""Between two commands of a tool."""
_NAME: Final = re.compile(r"@([A-Za-z0-9]+)")


class Operators:
    """Gives commands; *on_moved* hears of keys that a tool brought to another master."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_moved: list[Callable[[int, Host], None]] = []

    def command(self, host: Host, words: tuple[str, ...]) -> str:
        """What *host* answers to a command; ``@M1`` stands for the id of M1.  Empty if it does not answer."""
        named = tuple(_NAME.sub(self._id_of, word) for word in words)
        reply = self.world.ask(host, tuple(word.encode() for word in named))
        self.world.names[host.id] = host.name
        return "" if reply is None else text_of(reply)

    def _id_of(self, match: re.Match[str]) -> str:
        host = self.world.find(match[1])
        return host.id if host is not None else match[0]

    def meet(self, host: Host, other: Host) -> str:
        """CLUSTER MEET."""
        return self.command(host, ("CLUSTER", "MEET", other.ip, str(other.settings.port)))

    def move_slot(self, slot: int, source: Host, target: Host) -> None:
        """What redis-cli does to move one slot: both marks, the keys, the new owner at both ends (R123, R124).

        It stops at the first step that is refused, and before the first if *source* does not own the slot.
        """
        if source is target or not source.answers or not source.node.view.myself.slots >> slot & 1:
            return
        number = str(slot)
        steps: list[Callable[[], bool]] = [
            lambda: self._set_slot(target, number, "IMPORTING", source),
            lambda: self._set_slot(source, number, "MIGRATING", target),
            lambda: self.migrate_keys(slot, source, target),
            lambda: self._set_slot(target, number, "NODE", target),
            lambda: self._set_slot(source, number, "NODE", target),
        ]
        self._go_on(steps)

    def _set_slot(self, host: Host, slot: str, action: str, other: Host) -> bool:
        return self.command(host, ("CLUSTER", "SETSLOT", slot, action, f"@{other.name}")) == "OK"

    def _go_on(self, steps: list[Callable[[], bool]], _: Any = None) -> None:
        if steps and steps[0]():
            self.world.call_at(self.world.now_us + STEP_US, self._go_on, steps[1:])

    def migrate_keys(self, slot: int, source: Host, target: Host) -> bool:
        """MIGRATE of every key in a slot: there first, then gone here; False if an end does not run or may not write."""
        if not source.answers or not target.answers:
            return False
        if not source.node.view.myself.flags & target.node.view.myself.flags & MASTER:
            return False
        for key, value in list(source.store.held.get(slot, {}).items()):
            self.world.replication.write(target, key, value, WRITE_BYTES)
            self.world.replication.write(source, key, None, WRITE_BYTES)
        for heard in self.on_moved:
            heard(slot, target)
        return True


def text_of(value: Any) -> str:
    """A reply as one line: an error's text, a number, a text, the beginning of anything else."""
    if isinstance(value, RespError):
        return value.text
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
