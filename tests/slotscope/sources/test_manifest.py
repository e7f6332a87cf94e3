"""Clusters that one job reads: as a file says, or as a landing holds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from slotscope.runtime.errors import InputError
from slotscope.sources.fleet_manifest import read_manifest
from slotscope.sources.inputs import load_topology
from tests.conftest import DATA

NODES = DATA / "valkey-9.1" / "topology" / "nodes.txt"


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_paths_of_a_manifest_begin_where_it_lies(tmp_path):
    manifest = put(
        tmp_path / "clusters.toml",
        '[shop]\nrdb = ["shop/*.rdb", "/dumps/*.rdb", "s3://dumps/shop"]\ntopology = "shop/nodes.txt"\nprefix-depth = 3\n["a b"]\nkeys = "k.csv"\n',
    )

    assert read_manifest(str(manifest)) == {
        "shop": {
            "rdb": [f"{tmp_path}/shop/*.rdb", "/dumps/*.rdb", "s3://dumps/shop"],
            "topology": f"{tmp_path}/shop/nodes.txt",
            "prefix_depth": 3,
        },
        "a b": {"keys": f"{tmp_path}/k.csv"},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no cluster in it"),
        ("rdb = 'a'", "rdb: move the options of a cluster below its name"),
        ("[a]\n[a]", "Cannot declare"),
        ("[a]\nx = " + "[" * 5000, "maximum recursion depth|nested"),
        ("\0", "Invalid|Found"),
    ],
)
def test_an_invalid_manifest_is_one_line(tmp_path, text, expected):
    with pytest.raises(InputError, match=rf"clusters\.toml: .*({expected})"):
        read_manifest(str(put(tmp_path / "clusters.toml", text)))


def test_a_landing_has_a_folder_a_cluster_with_dumps_and_recordings(tmp_path):
    """The topology is the one that was put there, else the poll that ended last; clusters without dumps, logs and lists are none."""
    landing = tmp_path / "landing [1]"
    put(landing / "east" / "host-1" / "rdb" / "a.rdb")
    put(landing / "east" / "host-1" / "rdb" / "b.rdb")
    put(landing / "east" / "host-2" / "rdb" / "c.rdb")
    early, late = (
        f"20261122T{begin}00.000000Z_20261122T{end}00.000000Z.jsonl.gz"
        for begin, end in (("2336", "2337"), ("2337", "2338"))
    )
    put(landing / "east" / "host-1" / "polls" / late)
    put(landing / "east" / "host-2" / "polls" / early)
    put(landing / "west" / "rdb" / "a.rdb")
    put(landing / "west" / "nodes.txt")
    put(landing / "west" / "host-1" / "aof" / "appendonlydir" / "appendonly.aof.manifest")
    put(landing / "south" / "keys" / "all.csv")
    put(landing / "idle" / "host-1" / "bus" / early.replace("jsonl", "pcap"))

    assert read_manifest(f"{landing}/") == {
        "east": {
            "rdb": [f"{landing}/east/host-1/rdb", f"{landing}/east/host-2/rdb"],
            "topology": f"{landing}/east/host-1/polls/{late}",
        },
        "south": {"keys": [f"{landing}/south/keys"]},
        "west": {
            "rdb": [f"{landing}/west/rdb"],
            "aof": [f"{landing}/west/host-1/aof/appendonlydir/appendonly.aof.manifest"],
            "topology": f"{landing}/west/nodes.txt",
        },
    }


def test_a_place_without_clusters_is_reported(tmp_path):
    with pytest.raises(InputError, match="no cluster in it"):
        read_manifest(str(tmp_path))
    with pytest.raises(DecodeError, match="no such file"):
        read_manifest(str(tmp_path / "clusters.toml"))


def test_the_topology_of_polls_is_that_of_the_newest(tmp_path):
    polls = put(tmp_path / "polls.jsonl")
    text = NODES.read_text()
    lines = [{"time": 1_795_254_729 + at, "node": "127.0.0.1:7001", "text": poll} for at, poll in enumerate(("", text))]
    polls.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    actual = load_topology(str(polls))

    assert actual == load_topology(str(NODES))
