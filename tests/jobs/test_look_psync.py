"""`slotscope look HOST:PORT --psync`: a snapshot of a live cluster from the dumps of its replicas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schemas.gold import BIG_KEYS, KEY_PREFIXES
from schemas.silver import SLOT_LOAD, SOURCES
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.program import slotscope, without_progress
from tests.benches.servers import installed, valkey_binary, wait_for
from tests.jobs.test_look import address, halves, run, slot_of

pytestmark = pytest.mark.servers

KEYS = 2000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two masters, each with a replica that has all of its keys."""
    with running_cluster(installed(valkey_binary()), masters=2, replicas=2) as made:
        for master, replica, (first, last) in zip(made.masters, made.replicas, halves(2), strict=True):
            keys = [key for key in (f"user:{at}" for at in range(KEYS)) if first <= slot_of(key) <= last]
            master.ask([("SET", key, "v" * (len(key) * 7)) for key in keys])
            wait_for(
                lambda m=master, r=replica: m.call("DBSIZE") == r.call("DBSIZE") > 0, "the replica to have all keys"
            )
        yield made


def rows(root: str, snapshot: str) -> dict[str, object]:
    """What makes two snapshots the same."""
    load = read_rows(root, SLOT_LOAD, snapshot_id=snapshot)
    names = ("slot", "node_id", "keys", "serialized_bytes", "memory_bytes", "expires")
    return {
        "slots": sorted(tuple(row[name] for name in names) for row in load),
        "keys": [
            row["memory_bytes"]
            for row in read_rows(root, BIG_KEYS, snapshot_id=snapshot, scope="cluster", order_by="rank")
        ],
        "prefixes": [row["keys"] for row in read_rows(root, KEY_PREFIXES, snapshot_id=snapshot)],
    }


@pytest.mark.spark
def test_the_figures_are_those_of_the_dumps_on_disk(spark, cluster, tmp_path, capsys):
    """Slots, owners, bytes, memory: row for row; each master's keys come from its replica."""
    root = str(tmp_path / "root")

    assert run(address(cluster.masters[0]), "--psync", "--root", root, "--snapshot", "live") == 0
    out = capsys.readouterr().out
    for node in cluster.replicas:
        wait_for(lambda n=node: b"rdb_bgsave_in_progress:0" in n.call("INFO", "persistence"), "its child to end")
        node.call("SAVE")
    dumps = [str(node.directory / "dump.rdb") for node in cluster.replicas]
    options = ("--topology", f"{root}/topology/live.txt", "--root", root, "--snapshot", "files")
    assert slotscope("key-slots", "--rdb", *dumps, *options) == 0
    actual, expected = rows(root, "live"), rows(root, "files")
    sources = {row["source"]: row["file_bytes"] for row in read_rows(root, SOURCES, snapshot_id="live")}

    assert actual == expected
    assert sum(row[2] for row in actual["slots"]) == KEYS
    assert set(sources) == {f"redis://{address(node)}" for node in cluster.replicas}
    assert all(size > KEYS for size in sources.values())
    assert out.startswith("$ slotscope key-slots --rdb redis://127.0.0.1:")
    assert "was made from live servers without keeping their dumps: name the servers with --rdb" in refused_advice(
        root, capsys
    )


def refused_advice(root: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `advise` says, which would have to read the dumps again."""
    assert slotscope("advise", "--snapshot", "live", "--root", root) == 2
    return capsys.readouterr().err


def test_a_dry_run_names_the_replicas_and_asks_for_no_dump(cluster, tmp_path, capsys):
    """The command that it prints is one that the program takes."""
    assert (
        run(address(cluster.masters[1]), "--psync", "--dry-run", "--root", str(tmp_path / "root"), "--separators", "/")
        == 0
    )
    out = capsys.readouterr().out

    assert sorted(address(node) in out for node in cluster.nodes) == [False, False, True, True]
    assert "--separators=/" in out
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dumps/", "--psync"], "--psync reads a live server"),
        (["127.0.0.1:1", "--psync"], "127.0.0.1:1: "),
    ],
)
def test_a_failed_dump_is_one_line(arguments, says, capsys):
    assert run(*arguments) == 2
    err = capsys.readouterr().err

    assert says in err
    assert len(without_progress(err)) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--bytes-per-second", "1"], "--bytes-per-second 1: 1,000 or more"),
        (["--bytes-per-second", "nan"], "--bytes-per-second nan"),
        ([], "this is a master"),
        (["--keep-keys"], "--keep-keys reads dumps twice"),
    ],
)
def test_a_live_dump_is_refused_before_anything_is_read(arguments, says, cluster, tmp_path, capsys):
    source, root = f"redis://{address(cluster.masters[0])}", tmp_path / "root"
    assert slotscope("key-slots", "--rdb", source, "--root", root, *arguments) == 2
    err = capsys.readouterr().err

    assert says in err
    assert len(without_progress(err)) == 1
    assert not (tmp_path / "root").exists()
