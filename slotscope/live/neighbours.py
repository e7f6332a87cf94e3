"""What our neighbours are asked: sentinels which master they watch and how (before we begin), all of them to forget us (at the end)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.servers.node_link import Access, Address, LinkError

OPTIONS: Final = ("quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs")
"""What we take over from a sentinel that watches the master already."""


def learn_master(address: Address, access: Access, name: str) -> tuple[Address, dict[str, int]]:
    """Where the master *name* is, and the options that a sentinel watches it with; raises InputError."""
    try:
        reply = access.ask(address, "SENTINEL", "MASTER", name)
        pairs = [word.decode("utf-8", "replace") for word in reply]
        told = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return Address(told["ip"], int(told["port"])), {option: int(told[option]) for option in OPTIONS}
    except LinkError as error:
        raise InputError(f"--join {address}: {printable(str(error))}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"--join {address}: this is no sentinel") from error


def ask_to_forget(nodes: Sequence[Address], kind: str, access: Access, *orders: tuple[str, ...]) -> list[str]:
    """Send *orders* to all *nodes* (*kind* is what they are called), one after the other; return a line of log for each that did not take them."""
    refused = []
    for node in nodes:
        try:
            for words in orders:
                access.ask(node, *words)
        except LinkError as error:
            refused.append(f"# {node} does not forget us: {access.safe(error)}")
    return [*refused, f"* {len(nodes) - len(refused)} of {len(nodes)} {kind} have forgotten us"]
