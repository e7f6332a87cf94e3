"""What one real sentinel is asked: which master it watches and how (before we begin), and to forget us (at the end)."""

from __future__ import annotations

from typing import Any, Final

from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.servers.node_link import Access, Address, LinkError

OPTIONS: Final = ("quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs")
"""What we take over from a sentinel that watches the master already."""


def ask(address: Address, access: Access, *words: str) -> Any:
    """The reply of one sentinel to one command; raises LinkError, also for an error that it answers."""
    link = access.connect(address)
    try:
        (reply,) = link.ask([words])
    finally:
        link.close()
    if isinstance(reply, RespError):
        raise LinkError(access.safe(reply.text))
    return reply


def learn_master(address: Address, access: Access, name: str) -> tuple[Address, dict[str, int]]:
    """Where the master *name* is, and the options that a sentinel watches it with; raises InputError."""
    try:
        reply = ask(address, access, "SENTINEL", "MASTER", name)
        pairs = [word.decode("utf-8", "replace") for word in reply]
        told = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return Address(told["ip"], int(told["port"])), {option: int(told[option]) for option in OPTIONS}
    except LinkError as error:
        raise InputError(f"--join {address}: {printable(str(error))}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"--join {address}: this is no sentinel") from error


def ask_to_forget(sentinels: list[Address], access: Access, names: list[str]) -> list[str]:
    """SENTINEL RESET of every master at every sentinel, one after the other; a line of log for each that did not take it."""
    refused = []
    for address in sentinels:
        try:
            for name in names:
                ask(address, access, "SENTINEL", "RESET", name)
        except LinkError as error:
            refused.append(f"# {address} does not forget us: {error}")
    return [*refused, f"* {len(sentinels) - len(refused)} of {len(sentinels)} sentinels have forgotten us"]
