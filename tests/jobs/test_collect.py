"""`slotscope collect` against a live cluster: its files, its commands, its end."""

from __future__ import annotations

import gzip
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_core.formats.slot_stats import read_slot_stats_line
from slotscope.sources.node_polls import Poll, PollFile
from tests.benches.clusters import Cluster, commands_of, running_cluster
from tests.benches.program import Program, slotscope, without_progress
from tests.benches.servers import installed, running, valkey_binary, wait_for

pytestmark = pytest.mark.servers

ALLOWED = {"auth", "cluster|nodes", "cluster|info", "info", "config|get"}
STATS = "cluster|slot-stats"
OWN = {"cluster|myid", "info", "config|resetstat", "client|setinfo", "replconf", "ping"}
"""Commands of the tests themselves and of replicas."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two masters and a replica."""
    with running_cluster(installed(valkey_binary()), masters=2, replicas=1) as running_one:
        yield running_one


def run(*arguments: str) -> int:
    return slotscope("collect", *arguments)


def polls_in(landing: Path) -> list[Poll]:
    """The polls of all finished files."""
    return [poll for path in sorted(landing.glob("*/*/polls/*.gz")) for poll in PollFile(str(path))]


def test_answers_go_to_finished_files_and_unchanged_ones_are_short(cluster, tmp_path, capsys):
    """One whole answer a node and file, INFO each minute, and all polls come back whole; COMMANDSTATS show reads only."""
    address = f"127.0.0.1:{cluster.nodes[0].port}"
    for node in cluster.nodes:
        node.call("CONFIG", "RESETSTAT")

    before_ns = time.time_ns()
    code = run(address, "--landing", str(tmp_path), "--interval", "0.1", "--every", "1s", "--duration", "2.2")
    folder = tmp_path / f"127.0.0.1_{cluster.nodes[0].port}" / "collect" / "polls"
    files = sorted(folder.glob("*.jsonl.gz"))
    lines = [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]
    polls = [poll for path in files for poll in PollFile(str(path))]

    assert (code, list(folder.glob(".*"))) == (0, [])
    assert len(files) >= 2
    assert sum("text" not in line for line in lines) > len(lines) / 2
    assert len(polls) == len(lines) >= 30
    assert {poll.observer for poll in polls} == {node.call("CLUSTER", "MYID").decode() for node in cluster.nodes}
    assert commands_of(*cluster.nodes) - OWN <= ALLOWED
    assert {poll.address for poll in polls} == {f"127.0.0.1:{node.port}" for node in cluster.nodes}
    assert all(
        before_ns < poll.asked_ns <= poll.ts_ns < time.time_ns() and len(poll.topology.nodes) == 3 for poll in polls
    )
    assert sum("persistence" in line for line in lines) == 3
    assert "read them with: slotscope history --polls" in capsys.readouterr().err


def test_slot_statistics_are_polled_on_request(cluster, tmp_path):
    """Every slot once, by the master that owns it; the replica tells of no slot twice."""
    for node in cluster.nodes:
        node.call("CONFIG", "RESETSTAT")

    run(f"127.0.0.1:{cluster.nodes[0].port}", "--landing", str(tmp_path), "--duration", "2", "--slot-stats")
    lines = [
        raw
        for path in sorted(tmp_path.glob("*/*/slot-stats/*.gz"))
        for raw in gzip.decompress(path.read_bytes()).splitlines()
    ]
    samples = [
        sample
        for line, raw in enumerate(lines, 1)
        for sample in read_slot_stats_line(raw, line=line)
        if sample.metric == "keys"
    ]

    assert commands_of(*cluster.nodes) - OWN <= ALLOWED | {STATS}
    masters = {f"127.0.0.1:{node.port}" for node in cluster.masters}
    owners = {sample.slot: sample.node for sample in samples if sample.node in masters}
    assert (len(owners), set(owners.values())) == (16384, masters)
    assert all(owners[sample.slot] == sample.node for sample in samples if sample.node in masters)
    assert set(Counter((sample.ts_ns, sample.node, sample.slot) for sample in samples).values()) == {1}
    assert {poll.address for poll in polls_in(tmp_path)} == {f"127.0.0.1:{node.port}" for node in cluster.nodes}


def has_answers(landing: Path) -> bool:
    return any(path.stat().st_size for path in landing.glob("*/*/polls/.*.partial"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_whole_lines(cluster, tmp_path, number):
    """Ctrl-C is the usual end: exit code 0, every line complete."""
    address = f"127.0.0.1:{cluster.nodes[0].port}"
    with Program("collect", address, "--landing", tmp_path, "--interval", "0.1") as collector:
        wait_for(lambda: has_answers(tmp_path), "the first answers")
        errors = collector.end(number)

    assert collector.returncode == 0
    assert "read them with: slotscope history --polls" in errors
    assert len(polls_in(tmp_path)) >= 3


def test_a_dead_node_is_reported_once_and_polled_again(tmp_path, capsys):
    """The others go on; it is back when it answers."""
    with running_cluster(installed(valkey_binary()), masters=2) as cluster:
        (first, second), killed_ns = cluster.nodes, list[int]()

        def kill() -> None:
            wait_for(lambda: has_answers(tmp_path), "the first answers")
            second.process.kill()
            killed_ns.append(time.time_ns())

        threading.Thread(target=kill).start()

        run(f"127.0.0.1:{first.port}", "--landing", str(tmp_path), "--interval", "0.1", "--duration", "3")

    errors = capsys.readouterr().err
    assert errors.count(f"127.0.0.1:{second.port}: polls not recorded: unreachable") == 1
    later = [poll.address for poll in polls_in(tmp_path) if poll.ts_ns > killed_ns[0]]
    assert later.count(f"127.0.0.1:{first.port}") >= 3


def test_a_password_comes_from_the_environment(tmp_path, monkeypatch, capsys):
    """ACL user that may do nothing else; the password is on no command line."""
    with running(installed(valkey_binary()), cluster=True) as node:
        node.call("ACL", "SETUSER", "watcher", "on", ">secret", "-@all", "+cluster|nodes", "+cluster|info")
        node.call("ACL", "SETUSER", "default", "-cluster")
        arguments = (f"127.0.0.1:{node.port}", "--landing", str(tmp_path), "--duration", "0.3")

        monkeypatch.setenv("WATCHER", "secret")
        assert run(*arguments, "--user", "watcher", "--password-env", "WATCHER") == 0
        monkeypatch.setenv("WATCHER", "wrong")
        assert run(*arguments, "--user", "watcher", "--password-env", "WATCHER") == 2
        assert run(*arguments) == 2

    errors = capsys.readouterr().err
    assert "secret" not in errors
    assert "invalid username-password pair" in errors


@pytest.mark.parametrize("text", ["nowhere", "127.0.0.1:0", ":7000", "127.0.0.1:x", "::1"])
def test_an_unreachable_address_is_one_line(text, tmp_path, capsys):
    assert run(text, "--landing", str(tmp_path)) == 2
    assert len(without_progress(capsys.readouterr().err)) == 1
