"""What a simulated server answers beside its node: the commands on its data, MIGRATE, INFO, CONFIG GET, DBSIZE.

A command on data comes here when the node has decided to serve it.  MIGRATE asks the node at the other end as any client would, so
that it answers MOVED or takes the key as the rules have it; the time that the transfer takes is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.gossip.profile import Profile
from cluster_core.sim.host import Host
from cluster_core.sim.network import Network
from cluster_core.sim.servers.replication import Replication
from cluster_core.sim.servers.store import WRITE_BYTES
from cluster_core.wire.resp import RespError

Words = tuple[bytes, ...]
KEYS_AT: Final = 6
"""Where the options of MIGRATE begin."""
IOERR: Final = RespError("IOERR error or timeout reading to target instance")


def server_version(profile: Profile) -> tuple[str, str]:
    """Product and version of a server that follows *profile*; of Redis 8 the one that moves slots by itself.

    >>> from cluster_core.gossip.profile import REDIS_8
    >>> server_version(REDIS_8)
    ('redis', '8.4.0')
    """
    product, _, version = profile.name.partition("-")
    return product, f"{version}.0" if "." in version else f"{version}.4.0"


class Commands:
    """Commands on the data of hosts; *ask* has a node answer a command as it answers a client."""

    def __init__(self, network: Network, replication: Replication, ask: Callable[[Host, Words], Any]) -> None:
        self.network, self.replication, self.ask = network, replication, ask

    def execute(self, host: Host, words: Words) -> Any:
        """Carry out a command that the node of *host* serves and return its reply; what is not known is OK."""
        command = _COMMANDS.get(words[0].lower())
        return "OK" if command is None else command(self, host, words)

    def _set(self, host: Host, words: Words) -> Any:
        self.replication.write(host, words[1], words[2], WRITE_BYTES)
        return "OK"

    def _get(self, host: Host, words: Words) -> Any:
        return host.store.value(words[1])

    def _mget(self, host: Host, words: Words) -> Any:
        return [host.store.value(key) for key in words[1:]]

    def _del(self, host: Host, words: Words) -> Any:
        held = [key for key in words[1:] if host.store.holds(key)]
        for key in held:
            self.replication.write(host, key, None, WRITE_BYTES)
        return len(held)

    def _restore(self, host: Host, words: Words) -> Any:
        if host.store.holds(words[1]) and words[-1].upper() != b"REPLACE":
            return RespError("BUSYKEY Target key name already exists.")
        self.replication.write(host, words[1], words[3], WRITE_BYTES)
        return "OK"

    def _migrate(self, host: Host, words: Words) -> Any:
        """MIGRATE host port key|"" db timeout [REPLACE] [KEYS key …]: there first, then gone here."""
        options = [word.upper() for word in words[KEYS_AT:]]
        keys = words[KEYS_AT + options.index(b"KEYS") + 1 :] if b"KEYS" in options else words[3:4]
        here = [key for key in keys if host.store.holds(key)]
        if not here:
            return "NOKEY"
        target = self.network.by_address.get((words[1].decode(), int(words[2])))
        if target is None or target is host or not target.answers or self.network.path(host, target).is_blocked:
            return IOERR
        error = None
        for key in here:
            restore = (b"RESTORE-ASKING", key, b"0", host.store.value(key) or b"")
            reply = self.ask(target, (*restore, b"REPLACE") if b"REPLACE" in options else restore)
            if self.network.path(target, host).is_blocked:
                return IOERR
            if isinstance(reply, RespError):
                error = RespError(f"ERR Target instance replied with error: {reply.text}")
            else:
                self.replication.write(host, key, None, WRITE_BYTES)
        return error or "OK"

    def _dbsize(self, host: Host, words: Words) -> Any:
        return sum(map(len, host.store.held.values()))

    def _info(self, host: Host, words: Words) -> Any:
        product, version = server_version(host.settings.profile)
        server = [f"server_name:{product}", f"{product}_version:{version}"]
        keys = self._dbsize(host, words)
        lines = [
            "# Server",
            *server,
            "# Memory",
            "used_memory:0",
            "# Keyspace",
            *([f"db0:keys={keys},expires=0"] if keys else []),
        ]
        return "".join(f"{line}\r\n" for line in lines).encode()

    def _config(self, host: Host, words: Words) -> Any:
        """CONFIG GET, for as much as nodes of a simulation have."""
        if words[1:] != (b"GET", b"cluster-node-timeout"):
            return []
        return [words[2], b"%d" % host.settings.node_timeout_ms]


_COMMANDS: Final[dict[bytes, Callable[[Commands, Host, Words], Any]]] = {
    b"set": Commands._set,
    b"get": Commands._get,
    b"mget": Commands._mget,
    b"del": Commands._del,
    b"restore-asking": Commands._restore,
    b"migrate": Commands._migrate,
    b"dbsize": Commands._dbsize,
    b"info": Commands._info,
    b"config": Commands._config,
}
