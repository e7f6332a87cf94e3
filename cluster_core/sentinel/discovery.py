"""What follows from a hello message: other sentinels, a newer epoch, a newer configuration (S3, S4)."""

from __future__ import annotations

import re
from typing import Final

from cluster_core.sentinel.directory import add_sentinel, is_place, move_master, remove_sentinel
from cluster_core.sentinel.hello import Hello, parse_hello
from cluster_core.sentinel.instance import Address, Instance
from cluster_core.sentinel.links import close_both
from cluster_core.sentinel.state import EPOCH_MAX, SentinelState

_ID: Final = re.compile(r"[0-9A-Za-z_.-]{1,64}")
"""An id that can stand in a configuration file; those of servers are 40 hexadecimal digits."""


def take_hello(state: SentinelState, text: str) -> None:
    """Act on a hello message of anybody; one of an unknown master is dropped (sentinelProcessHelloMessage)."""
    hello = parse_hello(text)
    master = state.masters.get(hello.master_name) if hello is not None else None
    if hello is None or master is None or hello.runid == state.my_id or not _ID.fullmatch(hello.runid):
        return
    if max(hello.current_epoch, hello.master_config_epoch) > EPOCH_MAX:
        return
    sender = master.sentinels.get(hello.runid)
    if sender is None or sender.address != Address(hello.ip, hello.port):
        sender = _meet(state, master, hello)
    if hello.current_epoch > state.current_epoch:
        state.raise_epoch(hello.current_epoch)
    if sender is None:
        return
    if master.config_epoch < hello.master_config_epoch:
        _take_config(state, master, sender, hello)
    sender.hello_ms = state.now_ms


def _meet(state: SentinelState, master: Instance, hello: Hello) -> Instance | None:
    """A sentinel that we do not know yet, or that has moved; None if it cannot be where it says."""
    if not is_place(state, hello.ip, hello.port):
        return None
    has_moved = remove_sentinel(state, master, hello.runid)
    if has_moved:
        more = f"ip {hello.ip} port {hello.port} for {hello.runid}"
        state.tell_of("*", "+sentinel-address-switch", master, more)
    else:
        _clear_address(state, master, Address(hello.ip, hello.port))
    sentinel = add_sentinel(state, master, hello.ip, hello.port, hello.runid)
    if sentinel is None:
        return None
    if has_moved:
        _move_elsewhere(state, sentinel)
    else:
        state.tell_of("*", "+sentinel", sentinel)
    state.save()
    return sentinel


def _clear_address(state: SentinelState, master: Instance, address: Address) -> None:
    """Who was at that address under another id is gone, with every master."""
    other = next((s for s in master.sentinels.values() if s.address == address), None)
    if other is not None:
        state.tell_of("*", "+sentinel-invalid-addr", other)
        for each in state.masters.values():
            remove_sentinel(state, each, other.runid)


def _move_elsewhere(state: SentinelState, sentinel: Instance) -> None:
    """The same sentinel has moved for every master (sentinelUpdateSentinelAddressInAllMasters)."""
    moved = 0
    for master in state.masters.values():
        match = master.sentinels.get(sentinel.runid)
        if match is None:
            continue
        close_both(state, match.link)
        if match is not sentinel:
            match.address = sentinel.address
            moved += 1
    if moved:
        state.tell_of("*", "+sentinel-address-update", sentinel, f"{moved} additional matching instances")


def _take_config(state: SentinelState, master: Instance, sender: Instance, hello: Hello) -> None:
    """A newer configuration wins, whoever made it (S4)."""
    address = Address(hello.master_ip, hello.master_port)
    if not is_place(state, *address):
        return
    master.config_epoch = hello.master_config_epoch
    if address == master.address:
        return
    state.tell_of("#", "+config-update-from", sender)
    old = master.address
    state.tell("#", "+switch-master", f"{master.name} {old.ip} {old.port} {address.ip} {address.port}")
    move_master(state, master, address)
