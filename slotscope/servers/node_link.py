"""A connection to one server: commands out, replies in; no wait, no nesting and no length is the server's to choose."""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.wire.resp import RespError, RespParser

TIMEOUT_S: Final = 5.0
REPLY_BYTES_MAX: Final = 32 << 20
"""Bytes that may come before a reply is whole; SLOT-STATS of all slots takes two million."""
_READ_BYTES: Final = 1 << 16

Word = str | bytes | int


class LinkError(OSError):
    """A server that cannot be reached, does not answer in time, or answers what is no reply; the link is of no use any more."""


def _reason(error: Exception) -> str:
    """The text of a system error without its number."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; check the address, and that the server runs"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@dataclass(frozen=True, order=True, slots=True)
class Address:
    """Where a node listens for clients; *name* is the host name that the cluster announces for it, empty for none."""

    host: str
    port: int
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect: user and password, TLS files; *insecure* does not check the certificate."""

    user: str | None = None
    password: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure: bool = False
    timeout_s: float = TIMEOUT_S

    def connect(self, address: Address) -> NodeLink:
        """Open a connection that sends nothing of its own but AUTH; raises LinkError, also where the server refuses the password."""
        until_s = time.monotonic() + self.timeout_s
        try:
            link = NodeLink(self._open(address, until_s), self.timeout_s)
        except TimeoutError as error:
            raise LinkError("no connection in time") from error
        except (OSError, ValueError) as error:
            raise LinkError(_reason(error)) from error
        if self.user or self.password:
            try:
                (reply,) = link.ask([("AUTH", *([self.user] if self.user else []), self.password or "")])
                if isinstance(reply, RespError):
                    raise LinkError(self.safe(reply.text))
            except LinkError:
                link.close()
                raise
        return link

    def ask(self, address: Address, *words: Word) -> Any:
        """Return the reply of one server to one command, on a connection of its own; raises LinkError, also for an error that it answers."""
        link = self.connect(address)
        try:
            (reply,) = link.ask([words])
        finally:
            link.close()
        if isinstance(reply, RespError):
            raise LinkError(self.safe(reply.text))
        return reply

    def safe(self, error: object) -> str:
        """Return an error's text without the password."""
        text = str(error) or type(error).__name__
        return text.replace(self.password, "***") if self.password else text

    def _open(self, address: Address, until_s: float) -> socket.socket:
        """A certificate is good that names the announced host, or else the address that we connect to."""
        place = (address.host, address.port)
        if not self.tls:
            return socket.create_connection(place, _left_s(until_s))
        context = self._context()
        refused: ssl.SSLCertVerificationError | None = None
        for name in dict.fromkeys((address.name or address.host, address.host)):
            try:
                return _encrypt(context, socket.create_connection(place, _left_s(until_s)), name)
            except ssl.SSLCertVerificationError as error:
                refused = refused or error
        raise refused or LinkError("no name to check")

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.tls_ca)
        if self.tls_cert:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _encrypt(context: ssl.SSLContext, plain: socket.socket, name: str) -> socket.socket:
    wrapped: socket.socket | None = None
    try:
        wrapped = context.wrap_socket(plain, server_hostname=name)
        return wrapped
    finally:
        if wrapped is None:
            plain.close()


class NodeLink:
    """One connection; errors that the server answers are values (`RespError`), everything else that goes wrong is a LinkError."""

    def __init__(self, opened: socket.socket, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self._socket = opened
        self._parser = RespParser(source="reply")
        self._read: deque[Any] = deque()

    @property
    def is_local(self) -> bool:
        """Whether both ends are on this machine; not known of a connection that is lost."""
        try:
            return bool(self._socket.getsockname()[0] == self._socket.getpeername()[0])
        except OSError:
            return False

    def ask(self, commands: Sequence[Sequence[Word]], within_s: float | None = None) -> list[Any]:
        """Send *commands* at once and return a reply each; *within_s* is for all of them together, the default for each."""
        until_s = None if within_s is None else time.monotonic() + within_s
        self.send(commands, until_s)
        return [self.read(until_s) for _ in commands]

    def send(self, commands: Sequence[Sequence[Word]], until_s: float | None = None) -> None:
        """Send *commands* at once; *until_s* is a time of the monotonic clock."""
        self._socket.settimeout(self._left_s(until_s))
        try:
            self._socket.sendall(b"".join(_packed(words) for words in commands))
        except TimeoutError as error:
            raise LinkError("takes no more commands") from error
        except OSError as error:
            raise LinkError(_reason(error)) from error

    def read(self, until_s: float | None = None) -> Any:
        """Return the next reply, which must be whole at *until_s* (monotonic clock; default: within the link's timeout)."""
        end_s = time.monotonic() + self.timeout_s if until_s is None else until_s
        taken = 0
        while not self._read:
            self._socket.settimeout(_left_s(end_s))
            try:
                data = self._socket.recv(_READ_BYTES)
            except TimeoutError as error:
                raise LinkError("no answer in time") from error
            except OSError as error:
                raise LinkError(_reason(error)) from error
            taken += len(data)
            if not data:
                raise LinkError("the connection was closed")
            if taken > REPLY_BYTES_MAX:
                raise LinkError(f"a reply of more than {REPLY_BYTES_MAX:,} bytes")
            try:
                self._read.extend(self._parser.feed(data))
            except DecodeError as error:
                raise LinkError(f"no reply: {error.reason}") from error
        return self._read.popleft()

    def read_raw(self, count: int, within_s: float) -> bytes:
        """Return the next bytes as they are, up to *count*: what follows a command whose answer is no reply."""
        self._socket.settimeout(within_s)
        try:
            data = self._socket.recv(count)
        except TimeoutError as error:
            raise LinkError(f"nothing came for {within_s:g} s") from error
        except OSError as error:
            raise LinkError(_reason(error)) from error
        if not data:
            raise LinkError("the connection was closed")
        return data

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._socket.close()

    def _left_s(self, until_s: float | None) -> float:
        return self.timeout_s if until_s is None else _left_s(until_s)


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise LinkError("no answer in time")
    return left_s


def _packed(words: Sequence[Word]) -> bytes:
    return b"*%d\r\n%b" % (
        len(words),
        b"".join([b"$%d\r\n%b\r\n" % (len(word), word) if isinstance(word, bytes) else _bulk(word) for word in words]),
    )


@lru_cache
def _bulk(word: str | int) -> bytes:
    """A word of a command that is often the same: its name, an option."""
    raw = str(word).encode("utf-8", "surrogateescape")
    return b"$%d\r\n%b\r\n" % (len(raw), raw)
