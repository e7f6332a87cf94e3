"""A replay of a recorded failover shows the servers' own answers."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest

from benchmarks import fidelity
from slotscope.runtime import cli
from tests.conftest import DATA

SERVERS = ("bus-redis-7.0", "bus-valkey-9.1")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Two recordings in the form that the command reads; polls are the truth."""
    root = tmp_path_factory.mktemp("recordings")
    for server in SERVERS:
        folder = root / server
        shutil.copytree(DATA / server, folder)
        with gzip.open(folder / "polls.jsonl.gz", "rt") as lines, open(folder / "truth.jsonl", "w") as out:
            for line in lines:
                poll = json.loads(line)
                answer = {"t": poll.get("asked", poll["time"]), "t2": poll["time"], "kind": "cluster"}
                out.write(json.dumps(answer | {"port": 0, "id": None, "nodes": poll["text"]}) + "\n")
    return root


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
def test_replayed_views_equal_the_servers_answers(recordings, capsys, server) -> None:
    """At least 99.5 of 100 rows from the capture alone, and no fewer with polls and logs as further input."""
    code = cli.run(fidelity.command, [str(recordings), "--scenario", server, "--least", "99.5"])

    output = capsys.readouterr().out
    assert code == cli.OK, output
    assert "WORSE" not in output
    assert " 0 do not" in output
