"""Connections to one server: how a user reads that there is none."""

from __future__ import annotations

import socket

import pytest

from slotscope.servers.node_link import Access, Address, LinkError


def test_a_refused_connection_says_what_to_check():
    """No number of a system error; nothing listens on the port of a socket that is only bound."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(LinkError) as refused:
            Access().connect(Address("127.0.0.1", bound.getsockname()[1]))

    assert str(refused.value) == "connection refused; check the address, and that the server runs"
