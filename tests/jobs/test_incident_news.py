"""What a follower says of incidents: a page for each, and a command and a webhook that hear of each closing once."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from schemas.history import REPLAYS
from schemas.incidents import INCIDENT_STATES, INCIDENTS
from slotscope.pipelines.bus import incident_news
from slotscope.pipelines.bus.incident_news import CLOSED, OPEN, WITHDRAWN, Hooks, spread_news
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from tests.builders.stored_rows import replace_rows

pytestmark = pytest.mark.usefixtures("spark")
SNAPSHOT = "current"


class Receiver(BaseHTTPRequestHandler):
    """Keeps posted bodies; answers with the status of its server."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append(json.loads(body))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Any]:
    """A server that takes posts."""
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.posted, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def root(replayed_root: Path, tmp_path: Path) -> Path:
    """Tables of a recorded failover that may be written to."""
    copy = tmp_path / "root"
    shutil.copytree(replayed_root, copy)
    return copy


def states(root: Path) -> dict[str, str]:
    """The last notification, by incident."""
    return {row["incident_id"]: row["state"] for row in read_rows(str(root), INCIDENT_STATES, snapshot_id=SNAPSHOT)}


def known(root: Path) -> list[str]:
    rows = read_rows(str(root), INCIDENTS, order_by="incident", snapshot_id=SNAPSHOT)
    return [row["incident_id"] for row in rows]


def change(root: Path, number: int, **values: Any) -> None:
    """Let one incident be another one, as later files may show it."""
    rows = read_rows(str(root), INCIDENTS, snapshot_id=SNAPSHOT)
    rows = [row | values if row["incident"] == number else row for row in rows]
    replace_rows(str(root), INCIDENTS, rows, snapshot_id=SNAPSHOT)


@pytest.mark.parametrize("with_webhook", [True, False])
def test_each_incident_is_a_page_and_goes_to_command_and_webhook_once(root, receiver, tmp_path, with_webhook) -> None:
    heard = tmp_path / "heard"
    code = (
        f"import os, sys; open({str(heard)!r}, 'a').write(os.environ['SLOTSCOPE_INCIDENT_ID'] + sys.stdin.read()[:1])"
    )
    address = f"http://127.0.0.1:{receiver.server_port}/secret"
    hooks = Hooks(shlex.join([sys.executable, "-c", code]), address if with_webhook else "")

    lines = spread_news(str(root), [SNAPSHOT], hooks)

    assert known(root)
    assert [notice["incident_id"] for notice in receiver.posted] == (known(root) if with_webhook else [])
    assert heard.read_text() == "".join(f"{name}{{" for name in known(root))
    assert set(states(root).values()) <= {OPEN, CLOSED}
    assert len(lines) == len(states(root))
    pages = [Path(notice["page"]).read_text() for notice in receiver.posted]
    assert all(notice["cluster"] == SNAPSHOT and notice["summary"] for notice in receiver.posted)
    assert all("<html" in page for page in pages)
    assert spread_news(str(root), [SNAPSHOT], hooks) == []
    assert len(receiver.posted) == len(pages)


def test_opening_and_closing_are_notified_once_each(root, receiver) -> None:
    hooks = Hooks(webhook=f"http://127.0.0.1:{receiver.server_port}/")
    spread_news(str(root), [SNAPSHOT], hooks)
    first = len(receiver.posted)
    closed = next(row for row in read_rows(str(root), INCIDENTS, snapshot_id=SNAPSHOT) if row["ended_ns"] is not None)

    change(root, closed["incident"], ended_ns=None)
    opened = spread_news(str(root), [SNAPSHOT], hooks)
    change(root, closed["incident"], ended_ns=closed["ended_ns"], summary="It grew.")
    grown = spread_news(str(root), [SNAPSHOT], hooks)

    assert len(opened) == len(grown) == 1
    changes = [(notice["state"], notice["summary"] == "It grew.") for notice in receiver.posted[first:]]
    assert changes == [(OPEN, False), (CLOSED, True)]


def test_only_failed_notifications_are_repeated(root, receiver, tmp_path, monkeypatch) -> None:
    """A command that took an incident does not get it a second time because a webhook refused it; nor is the incident printed again."""
    heard = tmp_path / "heard"
    receiver.status = 503
    hooks = Hooks(f"tee -a {heard}", f"http://127.0.0.1:{receiver.server_port}/secret")
    spread_news(str(root), [SNAPSHOT], hooks)
    once = heard.read_text()
    assert spread_news(str(root), [SNAPSHOT], hooks) == [], "a receiver that is down for a minute gets it later"

    monkeypatch.setattr(incident_news, "RETRY_NS", 0)
    again = spread_news(str(root), [], hooks)

    assert once
    assert heard.read_text() == once
    assert [notice["incident_id"] for notice in receiver.posted] == 2 * known(root)
    assert again == [f"{SNAPSHOT}: {incident}: not delivered: 127.0.0.1: HTTP 503" for incident in known(root)]
    monkeypatch.setattr(incident_news, "SLOW_S", -1)
    assert spread_news(str(root), [SNAPSHOT], hooks) == again
    assert len(receiver.posted) == 2 * len(known(root)) + 1, "a receiver that hangs does not hold up the follower"


def test_an_incident_missing_in_later_files_is_withdrawn(root, receiver) -> None:
    """The webhook hears of it; an alert that was firing is resolved."""
    hooks = Hooks("", f"http://127.0.0.1:{receiver.server_port}/", "alertmanager", "https://pages/slots/")
    spread_news(str(root), [SNAPSHOT], hooks)
    before = states(root)
    rows = read_rows(str(root), INCIDENTS, order_by="incident", snapshot_id=SNAPSHOT)
    replace_rows(str(root), INCIDENTS, rows[1:], snapshot_id=SNAPSHOT)

    lines = spread_news(str(root), [SNAPSHOT], hooks)
    (replay,) = read_rows(str(root), REPLAYS, snapshot_id=SNAPSHOT)
    replace_rows(str(root), REPLAYS, [replay | {"first_ns": replay["last_ns"]}], snapshot_id=SNAPSHOT)
    replace_rows(str(root), INCIDENTS, [], snapshot_id=SNAPSHOT)
    assert spread_news(str(root), [SNAPSHOT], hooks) == [], "files that are lost disprove nothing"

    first, last = receiver.posted[0]["alerts"][0], receiver.posted[-1]["alerts"][0]
    assert [last[name] for name in ("labels", "fingerprint")] == [first[name] for name in ("labels", "fingerprint")]
    assert last["status"] == "resolved"
    assert last["annotations"]["page"].startswith(f"https://pages/slots/{SNAPSHOT}-")
    assert len(lines) == 1
    assert states(root) == before | {rows[0]["incident_id"]: WITHDRAWN}


def test_the_body_for_slack_is_a_text_with_the_page(root, receiver) -> None:
    spread_news(str(root), [SNAPSHOT], Hooks("", f"http://127.0.0.1:{receiver.server_port}/", "slack"))

    assert {tuple(body) for body in receiver.posted} == {("text",)}
    assert all(Path(body["text"].splitlines()[-1]).is_file() for body in receiver.posted)


@pytest.mark.parametrize("hooks", [Hooks("'unclosed"), Hooks(webhook="file:///etc/passwd"), Hooks(webhook="http://[")])
def test_an_unusable_command_or_webhook_is_refused_before_the_start(hooks) -> None:
    with pytest.raises(InputError):
        hooks.check()
