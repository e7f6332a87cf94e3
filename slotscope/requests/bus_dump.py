"""What ``bus-dump`` is asked."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.options import Flag, Paths, Plain, options


@options
class Request(Plain):
    """Which messages to show, and how."""

    node: Paths = ()
    """Only messages from or to this node: an id or its beginning, a port, an address, address:port."""
    type: Paths = ()
    """Only these: ping, pong, meet, fail, publish, auth-req, auth-ack, update, mfstart, module, publishshard, type-N, or
    connection, unknown, gap.
    """
    since: str | None = None
    """From this time: ISO 8601 (UTC without an offset) or seconds, ms, µs, ns since the epoch."""
    until: str | None = None
    """Before this time."""
    stream: Annotated[tuple[int, ...], Parameter(consume_multiple=1, show_default=False)] = ()
    """Only the TCP connection of this number (see --verbose)."""
    subject: Paths = ()
    """Only messages about this node: FAIL, UPDATE, forgotten, or gossip that holds it for failing."""
    connections: Flag = False
    """Also show when connections are opened and closed."""
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"), negative=(), show_default=False)] = False
    """Also show all that is in a message."""
    relative: Flag = False
    """Times in seconds since the first line."""
    json: Flag = False
    """Write JSON lines, which history and this command read; connections are always among them."""
    limit: int | None = None
    """Show so many rows at most."""
