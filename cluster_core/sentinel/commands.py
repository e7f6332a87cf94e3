"""Commands that other sentinels send, and the question of clients for the master's address (sentinelcmds)."""

from __future__ import annotations

from typing import Any

from cluster_core.sentinel.directory import find_master_at, take_hello
from cluster_core.sentinel.events import HELLO_CHANNEL, Reply
from cluster_core.sentinel.failover import vote
from cluster_core.sentinel.instance import Flag
from cluster_core.sentinel.links import current_address
from cluster_core.sentinel.state import SentinelState, text_of
from cluster_core.sentinel.text import whole_number
from cluster_core.wire.resp import RespError


def serve_client(state: SentinelState, client: int, arguments: tuple[bytes, ...]) -> None:
    """Answer one client command; the reply is added to the effects."""
    state.out.append(Reply(client, _reply(state, [text_of(word) for word in arguments])))


def _reply(state: SentinelState, words: list[str]) -> Any:
    match [words[0].lower(), *words[1:]] if words else []:
        case ["ping"]:
            return "PONG"
        case ["client", *_]:
            return "OK"
        case ["publish", channel, text] if channel == HELLO_CHANNEL:
            take_hello(state, text)
            return 1
        case ["sentinel", name, *arguments]:
            # Valkey's names are PRIMARY for MASTER; the old ones still work
            match [name.lower().replace("primary", "master"), *arguments]:
                case ["get-master-addr-by-name", master_name]:
                    return _address(state, master_name)
                case ["is-master-down-by-addr", host, port, epoch, runid]:
                    return _is_down(state, host, whole_number(port), whole_number(epoch), runid)
    return RespError("ERR unknown command")


def _encoded(text: str) -> bytes:
    """Encode text that came from a peer, restoring the peer's bytes."""
    return text.encode("utf-8", "surrogateescape")


def _address(state: SentinelState, name: str) -> Any:
    master = state.masters.get(name)
    if master is None:
        return None
    address = current_address(master)
    return [_encoded(address.ip), str(address.port).encode()]


def _is_down(state: SentinelState, host: str, port: int | None, epoch: int | None, runid: str) -> Any:
    """Return SDOWN of a master, and this sentinel's vote if one is requested; never down in TILT (S8, S9, S16)."""
    if port is None or epoch is None:
        return RespError("ERR value is not an integer or out of range")
    master = find_master_at(state, host, port)
    is_down = master is not None and bool(master.flags & Flag.S_DOWN) and not state.tilt
    leader, leader_epoch = "", 0
    if master is not None and runid != "*" and epoch >= 0:
        leader, leader_epoch = vote(state, master, epoch, runid)
    return [int(is_down), _encoded(leader or "*"), leader_epoch]
