"""Stores that lose an answer, or fail each so-manieth request: they pass everything else on to another.

``python -m tests.benches.unreliable_store PORT ENDPOINT ENDING EVERY`` is the process: delta-rs keeps Python's lock while it waits for an answer.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from tests.benches.object_store import ObjectStore
from tests.benches.servers import await_port, free_port

CHECKOUT = Path(__file__).parents[2]
OF_THE_WAY = frozenset({"connection", "transfer-encoding", "content-length", "expect"})
"""Headers that each of two servers writes anew."""
COUNT = "/troubles"
"""File with the number of lost answers and failed requests."""
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass(frozen=True)
class UnreliableStore(ObjectStore):
    """A store before which such a server stands."""

    def troubles(self) -> int:
        with urlopen(f"{self.endpoint}{COUNT}") as answer:
            return int(answer.read())


@contextmanager
def losing_store(store: ObjectStore, ending: str) -> Iterator[UnreliableStore]:
    """*store* behind a server that hangs up after it stored the first object with a name ending in *ending*."""
    with _passing(store.endpoint, ending, "0") as passing:
        yield passing


@contextmanager
def failing_store(store: ObjectStore, every: int) -> Iterator[UnreliableStore]:
    """*store* behind a server that refuses every request number *every*, as a store under load does."""
    with _passing(store.endpoint, "", str(every)) as passing:
        yield passing


@contextmanager
def _passing(*arguments: str) -> Iterator[UnreliableStore]:
    port = free_port()
    command = [sys.executable, "-m", "tests.benches.unreliable_store", str(port), *arguments]
    with subprocess.Popen(
        command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            await_port(port)
            yield UnreliableStore(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


class Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint = ending = ""
    every = 0
    numbers = itertools.count(1)
    troubles = 0

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        if self.path == COUNT:
            self._answer(HTTPStatus.OK, {}, str(Passing.troubles).encode())
            return
        body = self._body()
        if self.every and next(self.numbers) % self.every == 0:
            Passing.troubles += 1
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"Content-Type": "application/xml"}, SLOW_DOWN)
            return
        inner = HTTPConnection(self.endpoint.removeprefix("http://"))
        inner.request(self.command, self.path, body, self._passed(self.headers.items()))
        answer = inner.getresponse()
        data = answer.read()
        is_taken = self.command == "PUT" and answer.status == HTTPStatus.OK
        is_it = self.ending and self.path.partition("?")[0].endswith(self.ending)
        if is_taken and is_it and not Passing.troubles:
            Passing.troubles += 1
            self.close_connection = True
            return
        size = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, self._passed(answer.getheaders()), data, size)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue
        return b"".join(parts)

    def _passed(self, headers: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> dict[str, str]:
        return {name: value for name, value in headers if name.lower() not in OF_THE_WAY}

    def _answer(self, status: int, headers: dict[str, str], data: bytes, size: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", size or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


if __name__ == "__main__":
    Passing.endpoint, Passing.ending, Passing.every = sys.argv[2], sys.argv[3], int(sys.argv[4])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Passing).serve_forever()
