"""A connection to one server: redis-py connects, encrypts and authenticates, hiredis packs commands and parses replies.

Both are faster than Python code of our own.  The time and the size of a reply are bounded here.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import hiredis
from redis import exceptions
from redis.connection import Connection

from cluster_core.wire.resp import RespError

TIMEOUT_S: Final = 5.0
REPLY_BYTES_MAX: Final = 32 << 20
"""Bytes that may come before a reply is whole; SLOT-STATS of all slots takes two million."""
_READ_BYTES: Final = 1 << 16
_INCOMPLETE: Final = object()
_HIREDIS: Final[Any] = hiredis  # its annotations allow neither commands of several words nor errors as values

Word = str | bytes | int


class LinkError(OSError):
    """The server is unreachable, does not answer in time, or sends no valid reply; the link is then closed."""


def _reason(error: BaseException) -> str:
    """Return the text of an error without a number; redis-py has the system's error as context."""
    if isinstance(error, exceptions.RedisError) and isinstance(error.__context__, OSError):
        error = error.__context__
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
    """Credentials and TLS files of a connection; *insecure* does not check the certificate."""

    user: str | None = None
    password: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure: bool = False
    timeout_s: float = TIMEOUT_S

    def connect(self, address: Address) -> NodeLink:
        """Open a connection and send only AUTH; raises LinkError, also for a refused password."""
        settings: dict[str, Any] = {
            "host": address.host, "port": address.port, "username": self.user, "password": self.password,
            "socket_timeout": self.timeout_s, "protocol": 2, "driver_info": None,
        }  # fmt: skip
        if not self.tls:
            return self._opened(Connection(**settings))
        names = list(dict.fromkeys((address.name or address.host, address.host)))
        try:
            context = self._context()
            connections = [_TlsConnection(context, name, **settings) for name in names]
        except (OSError, ValueError) as error:
            raise LinkError(_reason(error)) from error
        try:
            return self._opened(connections[0])
        except LinkError as error:  # a certificate may name the address instead of the announced host
            if len(names) > 1 and isinstance(error.__cause__, ssl.SSLCertVerificationError):
                with suppress(LinkError):
                    return self._opened(connections[1])
            raise

    def _opened(self, connection: Connection) -> NodeLink:
        try:
            connection.connect()
        except exceptions.TimeoutError as error:
            hint = "; is this port one for TLS?" if isinstance(connection, _TlsConnection) else ""
            raise LinkError(f"no connection in time{hint}") from error
        except exceptions.RedisError as error:
            raise LinkError(self.safe(_reason(error))) from (error.__context__ or error)
        return NodeLink(connection, self.timeout_s)

    def ask(self, address: Address, *arguments: Word) -> Any:
        """Return the reply of one server to one command, on its own connection; raises LinkError, also for an error reply."""
        link = self.connect(address)
        try:
            (reply,) = link.ask([arguments])
        finally:
            link.close()
        if isinstance(reply, RespError):
            raise LinkError(self.safe(reply.text))
        return reply

    def safe(self, error: object) -> str:
        """Return an error's text without the password."""
        text = str(error) or type(error).__name__
        return text.replace(self.password, "***") if self.password else text

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.tls_ca)
        if self.tls_cert:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


class _TlsConnection(Connection):
    """A TLS connection to a server by its address; its certificate must name *name*.

    `redis.connection.SSLConnection` verifies the address, and trusts the CAs of the system besides a given one.
    """

    def __init__(self, context: ssl.SSLContext, name: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._context, self._name = context, name

    def _connect(self) -> ssl.SSLSocket:
        plain = super()._connect()
        try:
            return self._context.wrap_socket(plain, server_hostname=self._name)
        except (OSError, ValueError):
            plain.close()
            raise


class NodeLink:
    """One connection; error replies are values (`RespError`), all other errors are a LinkError."""

    def __init__(self, connection: Connection, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self._connection = connection
        self._reader = _HIREDIS.Reader(protocolError=LinkError, replyError=RespError, notEnoughData=_INCOMPLETE)
        self._socket: Any = connection._get_socket()

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
        replies: list[Any] = []
        while len(replies) < len(commands):
            replies.append(self.read(until_s))
            replies += self._read_at_hand(len(commands) - len(replies))
        return replies

    def _read_at_hand(self, most: int) -> list[Any]:
        """Return up to *most* replies that have arrived."""
        replies = []
        with suppress(LinkError, MemoryError):  # raised again by the next `read`
            for _ in range(most):
                reply = self._reader.gets()
                if reply is _INCOMPLETE:
                    break
                replies.append(reply)
        return replies

    def send(self, commands: Sequence[Sequence[Word]], until_s: float | None = None) -> None:
        """Send *commands* at once; *until_s* is a time of the monotonic clock."""
        self._socket.settimeout(self._left_s(until_s))
        try:
            self._socket.sendall(b"".join([_HIREDIS.pack_command(tuple(command)) for command in commands]))
        except TimeoutError as error:
            raise LinkError("takes no more commands") from error
        except OSError as error:
            raise LinkError(_reason(error)) from error

    def read(self, until_s: float | None = None) -> Any:
        """Return the next reply, which must be whole at *until_s* (monotonic clock; default: within the link's timeout).

        Texts are bytes, also those of a status.
        """
        end_s = time.monotonic() + self.timeout_s if until_s is None else until_s
        taken = 0
        while True:
            try:
                reply = self._reader.gets()
            except LinkError as error:
                raise LinkError(f"no reply: {error}") from error
            except MemoryError as error:  # a list has its memory as soon as its length is known
                raise LinkError("no reply: a list that memory does not hold") from error
            if reply is not _INCOMPLETE:
                return reply
            self._socket.settimeout(_left_s(end_s))
            data = self._receive(_READ_BYTES, "no answer in time")
            taken += len(data)
            if taken > REPLY_BYTES_MAX:
                raise LinkError(f"a reply of more than {REPLY_BYTES_MAX:,} bytes")
            self._reader.feed(data)

    def read_raw(self, count: int, within_s: float) -> bytes:
        """Return the next raw bytes, up to *count*, after a command without a RESP reply."""
        self._socket.settimeout(within_s)
        return self._receive(count, f"nothing came for {within_s:g} s")

    def _receive(self, count: int, timeout: str) -> bytes:
        """Return the next bytes; LinkError with the text *timeout* where none come in time."""
        try:
            data: bytes = self._socket.recv(count)
        except TimeoutError as error:
            raise LinkError(timeout) from error
        except OSError as error:
            raise LinkError(_reason(error)) from error
        if not data:
            raise LinkError("the connection was closed")
        return data

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()

    def _left_s(self, until_s: float | None) -> float:
        return self.timeout_s if until_s is None else _left_s(until_s)


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise LinkError("no answer in time")
    return left_s
