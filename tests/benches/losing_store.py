"""A store that loses an answer: it passes everything on to another, and hangs up after the first object of a name was written, which is there then.

``python -m tests.benches.losing_store ENDPOINT ENDING PORT`` is the process: delta-rs keeps Python's lock while it waits for an answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.benches.object_store import ObjectStore
from tests.benches.ports import await_port, free_port

CHECKOUT = Path(__file__).parents[2]
OF_THE_WAY = frozenset({"connection", "transfer-encoding", "content-length"})
"""Headers that each of two servers writes anew."""

LOST = "/answers-lost"
"""Where is told how many were lost."""


@contextmanager
def losing_store(store: ObjectStore, ending: str) -> Iterator[ObjectStore]:
    """*store* behind a server that loses the answer to the first object written whose name ends in *ending*."""
    port = free_port()
    command = [sys.executable, "-m", "tests.benches.losing_store", store.endpoint, ending, str(port)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            await_port(port)
            yield ObjectStore(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


class Passing(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    endpoint = ending = ""
    lost = 0

    def handle_one_request(self) -> None:
        """Pass a request on, and its answer back."""
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        if self.path == LOST:
            self._answer(HTTPStatus.OK, {}, str(Passing.lost).encode())
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        inner = HTTPConnection(self.endpoint.removeprefix("http://"))
        inner.request(self.command, self.path, body, dict(self.headers))
        answer = inner.getresponse()
        data = answer.read()
        is_taken = self.command == "PUT" and answer.status == HTTPStatus.OK
        if is_taken and self.path.partition("?")[0].endswith(self.ending) and not Passing.lost:
            Passing.lost += 1
            self.close_connection = True
            return
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in OF_THE_WAY}
        size = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, headers, data, size)

    def _answer(self, status: int, headers: dict[str, str], data: bytes, size: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", size or str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    Passing.endpoint, Passing.ending = sys.argv[1:3]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Passing).serve_forever()
