"""`slotscope look`: a live cluster, or files, whatever they are."""

from __future__ import annotations

import contextlib
import json
import random
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.main import program
from slotscope.servers import measuring, survey, visits
from tests.benches.clusters import Cluster, commands_of, memory_of, running_cluster
from tests.benches.program import slotscope, without_progress
from tests.benches.servers import Server, installed, redis_binary, running, valkey_binary, wait_for

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data"
OWN = {"info", "config|resetstat", "client|setinfo", "replconf", "ping", "readonly", "auth"}
"""Commands of the tests themselves, of replicas, and at the start of a connection."""
KEYS = 30_000
TAGGED = 3_000
"""Keys of one hash tag."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two masters, a replica of the first; slot statistics are on."""
    with running_cluster(
        installed(valkey_binary()), masters=2, replicas=1, **{"cluster-slot-stats-enabled": "yes"}
    ) as made:
        fill(made.masters)
        replica, master = made.replicas[0], made.masters[0]
        wait_for(lambda: replica.call("DBSIZE") == master.call("DBSIZE"), "the replica to have all keys")
        yield made


def fill(masters: list[Server]) -> None:
    """Users of various sizes, carts of one tag, one big list."""
    chance = random.Random(7)
    commands: list[tuple[Any, ...]] = [
        ("SET", f"user:{at}", "u" * chance.randint(50, 400)) for at in range(KEYS - TAGGED - 1)
    ]
    commands += [("SET", f"cart:{{t7}}:{at}", "c" * 100) for at in range(TAGGED)]
    commands.append(("RPUSH", "big:list", *["v" * 100] * 5000))
    owners = [
        (node, set(range(first, last + 1))) for node, (first, last) in zip(masters, halves(len(masters)), strict=True)
    ]
    for node, slots in owners:
        node.ask(command for command in commands if slot_of(command[1]) in slots)


def halves(count: int) -> list[tuple[int, int]]:
    return [(16384 * at // count, 16384 * (at + 1) // count - 1) for at in range(count)]


def slot_of(key: str) -> int:
    from cluster_core.slots.key_slot import key_slot

    return key_slot(key.encode())


def run(*arguments: str) -> int:
    return slotscope("look", *arguments)


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(*arguments, "--json") == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def address(node: Server) -> str:
    return f"127.0.0.1:{node.port}"


@pytest.mark.servers
def test_a_cluster_is_measured_from_one_address_with_commands_that_only_read(cluster, capsys):
    """Keys are counted; memory, prefixes and tags are near the truth; the replica is drawn from in its master's stead."""
    for node in cluster.nodes:
        node.call("CONFIG", "RESETSTAT")

    actual = answer_of(capsys, address(cluster.nodes[0]), "--seconds", "4", "--rate", "2000")
    sent = commands_of(*cluster.nodes)
    asked = (
        *visits.ASKED,
        *(command.split() for command in (*measuring.SENT, *measuring.ELEMENTS.values(), *survey.SENT)),
    )
    masters = {row["address"]: row for row in actual["masters"]}
    truth = sum(map(memory_of, cluster.masters))
    users = next(row for row in actual["prefixes"] if row["name"] == "user:")
    tag = next(row for row in actual["hash_tags"] if row["name"] == "t7")

    assert sent - OWN <= {"|".join(command[:2]).lower() for command in asked} | {
        command[0].lower() for command in asked
    }
    assert actual["keys"] == KEYS
    assert masters[address(cluster.masters[0])]["drawn_from"] == [address(cluster.replicas[0])]
    assert masters[address(cluster.masters[1])]["drawn_from"] == [address(cluster.masters[1])]
    memory = actual["memory_bytes"]
    assert abs(memory["value"] - truth) <= max(0.2 * truth, 2 * memory["error"])  # the big list may be drawn, or not
    assert abs(users["keys"]["value"] - (KEYS - TAGGED - 1)) <= 2 * users["keys"]["error"]
    assert abs(tag["keys"]["value"] - TAGGED) <= 2 * tag["keys"]["error"]
    assert slot_of("{t7}") in {row["slot"] for row in actual["slots"]}
    assert next(row for row in actual["slots"] if row["slot"] == slot_of("{t7}"))["keys"] >= TAGGED


@pytest.mark.servers
def test_the_verdict_comes_first_and_lines_fit(cluster, capsys, monkeypatch):
    """Then problems, figures, notes; estimates and unknown values are marked."""
    monkeypatch.setenv("COLUMNS", "80")

    assert run(address(cluster.nodes[2]), "--seconds", "4", "--rate", "2000") == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[1].startswith("The cluster serves, with 2 warnings; its load of 30,000 keys")
    assert max(map(len, lines)) <= 80
    assert any("1 of 2 masters have no replica" in line for line in lines)
    assert any("±" in line for line in lines)
    assert any("no hot keys: " in line for line in lines)
    assert not any("enable cluster-slot-stats" in line for line in lines)


@pytest.mark.servers
def test_a_missing_node_is_reported_and_the_rest_is_measured(capsys):
    """Its slots have no answer; the look ends all the same."""
    with running_cluster(installed(valkey_binary()), masters=3, cluster_node_timeout=3000) as made:
        fill_some(made.masters[0])
        made.masters[2].stop()
        wait_for(lambda: b"cluster_state:fail" in made.masters[0].call("CLUSTER", "INFO"), "the cluster to be down")

        actual = answer_of(capsys, address(made.masters[0]), "--seconds", "1")

    codes = {row["code"]: row for row in actual["symptoms"]}
    assert codes["cluster-down"]["severity"] == "error"
    assert codes["fail"]["text"].startswith(address(made.masters[2]))
    assert address(made.masters[2]) in codes["no-answer"]["text"]
    assert "not healthy" in actual["verdict"]
    assert {row["address"] for row in actual["masters"]} == {address(node) for node in made.masters[:2]}


def fill_some(node: Server) -> None:
    first, last = halves(3)[0]
    keys = [f"k:{at}" for at in range(300) if first <= slot_of(f"k:{at}") <= last]
    node.ask([("SET", key, "v") for key in keys])


@pytest.mark.servers
def test_a_single_server_of_few_keys_is_counted_whole_in_all_its_databases(capsys):
    """No estimate: errors are 0.  Its LFU counters show which keys are used."""
    with running(installed(redis_binary()), maxmemory="100mb", **{"maxmemory-policy": "allkeys-lfu"}) as server:
        server.ask([("SET", f"a:{at}", "x" * 10) for at in range(50)])
        server.ask([("SET", f"b:{at}", "x" * 1000) for at in range(20)], db=3)
        server.ask([("GET", "a:7")] * 500)
        truth = sum(server.call("MEMORY", "USAGE", f"a:{at}") for at in range(50))
        truth += sum(server.call("MEMORY", "USAGE", f"b:{at}", db=3) for at in range(20))

        actual = answer_of(capsys, address(server), "--seconds", "2")

    assert actual["verdict"] == "The server is healthy; it holds 70 keys."
    assert actual["memory_bytes"] == {"value": truth, "error": 0.0, "skewed": False}
    assert actual["most_used_keys"][0]["key"] == "a:7"
    assert actual["biggest_keys"][0]["type"] == "string"
    assert [row["name"] for row in actual["prefixes"]] == ["b:", "a:"]


@pytest.mark.servers
def test_missing_rights_to_measure_are_reported(redis_server, capsys, monkeypatch):
    """Keys are counted; memory is not known, and why is in the notes."""
    redis_server.call("FLUSHALL")
    redis_server.ask([("SET", f"k:{at}", "v") for at in range(30)])
    redis_server.call("ACL", "SETUSER", "viewer", "on", ">pass", "~*", "+info", "+scan", "+randomkey")
    monkeypatch.setenv("SLOTSCOPE_PASSWORD", "pass")

    actual = answer_of(capsys, address(redis_server), "--seconds", "1", "--user", "viewer")

    assert actual["keys"] == 30
    assert actual["memory_bytes"] is None
    assert any("memory not estimated: NOPERM" in note for note in actual["notes"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["127.0.0.1:1"], "127.0.0.1:1: "),
        (["127.0.0.1:99999"], "write HOST:PORT"),
        (["127.0.0.1:1", "--rate", "0"], "--rate from 1"),
        (["127.0.0.1:1", "--seconds", "nan"], "--seconds must be"),
        (["no-such-file"], "no such file"),
        ([], "name HOST:PORT of a live node, or files"),
    ],
)
def test_an_unreadable_input_is_one_line(arguments, says, capsys):
    assert run(*arguments) == 2
    err = capsys.readouterr().err

    assert says in err
    assert len(without_progress(err)) == 1


@pytest.mark.long
def test_commands_of_a_dry_run_are_valid(capsys):
    """All recorded data: each printed command is parsed by the program itself, and nothing runs."""
    assert run(str(RECORDED), str(ROOT / "slotscope" / "demo_data"), "--dry-run", "--root", "somewhere") == 0
    out = capsys.readouterr().out
    commands = [shlex.split(line.removeprefix("$ slotscope ")) for line in out.splitlines() if line.startswith("$ ")]
    parsed: list[Callable[..., Any]] = [program().parse_args(command, exit_on_error=False)[0] for command in commands]

    assert {command[0] for command in commands} == {"key-slots", "history", "lab"}
    assert len(parsed) == len(commands)
    assert "README.md: not known: text that begins" in out
    assert not Path("somewhere").exists()


def polls(*kinds: str) -> str:
    """Lines of a recording in which several commands share a file: *nodes* lines are polls, others are of no kind that is known."""
    node = "07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-16383"
    lines = {"nodes": {"t": 1795254729.5, "nodes": node}, "start": {"kind": "start", "t": 1795254729}}
    return "".join(json.dumps(lines[kind]) + "\n" for kind in kinds)


def test_commands_on_a_folder_quarantine_bad_records_unless_strict(tmp_path, capsys):
    """One foreign line or file does not cost the rest."""
    (tmp_path / "some.jsonl").write_text(polls("nodes", "start"))

    assert [run(str(tmp_path), "--dry-run", *options) for options in ([], ["--mode", "strict"])] == [0, 0]

    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("$ slotscope history")]
    assert [line.rpartition("--mode ")[2] for line in commands] == ["permissive", "strict"]


@pytest.mark.spark
def test_files_are_read_into_a_root_by_the_shown_commands(spark, tmp_path, capsys, monkeypatch):
    """A dump and a topology: the snapshot's page exists, and its place is shown."""
    recorded = ROOT / "slotscope" / "demo_data" / "valkey-9.1"
    root = tmp_path / "root"

    with contextlib.chdir(tmp_path):
        code = run(
            str(recorded / "before" / "node-7002.rdb"), str(recorded / "topology" / "nodes.txt"), "--root", str(root)
        )
    out = capsys.readouterr().out

    assert code == 0
    assert "$ slotscope key-slots --rdb" in out
    assert (root / "reports" / "look.html").exists()
    assert f"tables and pages are in {root}" in out.splitlines()[-1]
