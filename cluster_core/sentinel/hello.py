"""Hello messages: how sentinels find one another and tell which master is current (S3).

Eight fields with commas, published on `HELLO_CHANNEL` of every master and replica and sent to every other sentinel.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.sentinel.numbers import leading_number

HELLO_CHANNEL: Final = "__sentinel__:hello"
HELLO_CHARS_MAX: Final = 4096
"""A longer message is none: names and addresses of real ones take a few hundred characters."""
FIELDS: Final = 8


class Hello(NamedTuple):
    """Who speaks (address, id, epoch), and which master it holds for current, by which configuration epoch."""

    ip: str
    port: int
    runid: str
    current_epoch: int
    master_name: str
    master_ip: str
    master_port: int
    master_config_epoch: int


def parse_hello(text: str) -> Hello | None:
    """Return the message, or None for a text that has not eight fields (S3, sentinelProcessHelloMessage).

    Numbers are read as the server reads them: what does not begin with digits is 0.
    """
    tokens = text.split(",") if len(text) <= HELLO_CHARS_MAX else ()
    if len(tokens) != FIELDS:
        return None
    ip, port, runid, epoch, name, master_ip, master_port, config_epoch = tokens
    return Hello(
        ip,
        leading_number(port),
        runid,
        max(leading_number(epoch), 0),
        name,
        master_ip,
        leading_number(master_port),
        max(leading_number(config_epoch), 0),
    )


def format_hello(hello: Hello) -> str:
    """Return the text of *hello* as it is published (sentinelSendHello)."""
    return ",".join(str(field) for field in hello)
