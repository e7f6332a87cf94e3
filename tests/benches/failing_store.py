"""A proxy before an object store that answers some requests with 503, as a store under load does."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.benches.object_store import ObjectStore

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
OF_A_REQUEST = frozenset(("expect", "transfer-encoding", "content-length"))
OF_A_CONNECTION = frozenset(("connection", "transfer-encoding", "keep-alive", "content-length"))


@contextmanager
def failing_store(store: ObjectStore, every: int) -> Iterator[tuple[ObjectStore, list[str]]]:
    """*store* behind a proxy that fails each request whose number is a multiple of *every*, and the list of those that failed."""
    numbers, failed = itertools.count(1), list[str]()
    host = urlsplit(store.endpoint).netloc

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self._body()
            if next(numbers) % every == 0:
                failed.append(f"{self.command} {self.path}")
                self._answer(503, [("Content-Type", "application/xml")], SLOW_DOWN)
                return
            there = HTTPConnection(host, timeout=60)
            try:
                headers_there = {
                    name: value for name, value in self.headers.items() if name.lower() not in OF_A_REQUEST
                }
                there.request(self.command, self.path, body, headers_there)
                answer = there.getresponse()
                found = answer.read()
                headers = [one for one in answer.getheaders() if one[0].lower() not in OF_A_CONNECTION]
                size = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self._answer(answer.status, headers, found, size)
            finally:
                there.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - names that the server looks for

        def _body(self) -> bytes:
            if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                continue
            return b"".join(parts)

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, size: str | None = None) -> None:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", size or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield ObjectStore(f"http://127.0.0.1:{server.server_port}"), failed
        finally:
            server.shutdown()
            thread.join()
