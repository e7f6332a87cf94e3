"""Many clusters in one application: each has its snapshot, and the trouble of one is its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copy

import pytest

from jobs.key_slots import Request
from schemas.runs import RUNS
from schemas.silver import SNAPSHOTS
from slotscope.pipelines.keys.snapshot import SnapshotOutcome, exit_code, requests_of
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import BAD_INPUT, OK, PARTIAL, TRY_AGAIN, UNEXPECTED, Failure
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import slotscope, without_progress
from tests.conftest import DATA

VALKEY = DATA / "valkey-9.1"
NODES = VALKEY / "topology" / "nodes.txt"


def manifest(folder: Path, text: str) -> str:
    path = folder / "clusters.toml"
    path.write_text(text)
    return str(path)


def asked(request: Request) -> list[Request]:
    return requests_of(request, lambda flags: cli.read_options(Request, flags))


def test_options_of_a_cluster_override_the_command_line(tmp_path):
    text = "[a]\nrdb = 'x.rdb'\nno-replay = true\nquoted = false\n[b]\nkeys = ['y.csv']\nseparators = ';'\ntop = 7\nmode = 'permissive'\nsnapshot = 'mine'\n"
    left, right = asked(Request(root="r", manifest=manifest(tmp_path, text), snapshot="night", separators=":", top=3))

    assert (left.cluster, left.snapshot, left.rdb, left.separators, left.top) == (
        "a", "night-a", (f"{tmp_path}/x.rdb",), ":", 3,
    )  # fmt: skip
    assert (left.no_replay, left.quoted, left.mode, left.manifest) == (True, False, "strict", None)
    assert (right.snapshot, right.separators, right.top, right.mode, right.root) == ("mine", ";", 7, "permissive", "r")


def test_an_empty_root_names_the_first_command(tmp_path, capsys):
    assert slotscope("fleet", "--root", tmp_path) == BAD_INPUT

    assert f"{tmp_path}: no cluster there; is --root right? Begin with slotscope key-slots" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]\nrbd = 'x'", "a: rbd: no such option"),
        ("[a]\nroot = 'x'", "a: root: cannot be set per cluster"),
        ("[a]\ntop = 'many'", 'a: Invalid value for --top: "many"'),
        ("[a]\nmode = 'mild'", 'a: Invalid value "mild" for --mode'),
        ("[a]\nrdb = { x = 1 }", "a: rdb: write a text, a number"),
        ("[a]\nsnapshot = 'x'\n[b]\nsnapshot = 'x'", "two clusters write one snapshot"),
    ],
)
def test_an_impossible_option_is_refused_with_its_cluster_before_any_reading(tmp_path, text, expected):
    with pytest.raises(InputError, match=rf"clusters\.toml: {re.escape(expected)}"):
        asked(Request(manifest=manifest(tmp_path, text)))


def test_warnings_of_a_cluster_stay_with_that_cluster(tmp_path):
    with pytest.raises(InputError, match="--rdb: set it per cluster"):
        asked(Request(manifest=manifest(tmp_path, "[a]\nrdb = 'x'"), rdb=("y",)))


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (["finished", "finished"], OK),
        (["finished", "partial"], PARTIAL),
        (["finished", BAD_INPUT], PARTIAL),
        ([TRY_AGAIN, TRY_AGAIN], TRY_AGAIN),
        ([TRY_AGAIN, BAD_INPUT], UNEXPECTED),
    ],
)
def test_the_exit_code_shows_missing_clusters(ends, code):
    clusters = [
        SnapshotOutcome("c", state=end) if isinstance(end, str) else SnapshotOutcome("c", failure=Failure(end, "no"))
        for end in ends
    ]

    assert exit_code(clusters) == code


def test_a_failing_cluster_is_one_line_and_the_other_clusters_succeed(spark, tmp_path, capsys):
    """A landing of three clusters, one with half a dump, one with an invalid topology: read in one session."""
    landing, root = tmp_path / "landing", str(tmp_path / "root")
    for cluster in ("fine", "torn", "lost"):
        home = landing / cluster / "host-1" / "rdb"
        home.mkdir(parents=True)
        copy(NODES, landing / cluster / "nodes.txt")
        copy(VALKEY / "before" / "node-7001.rdb", home)
    torn = landing / "torn" / "host-1" / "rdb" / "node-7001.rdb"
    torn.write_bytes(torn.read_bytes()[:100_000])
    (landing / "lost" / "nodes.txt").write_text("nothing of that kind\n")

    held = set(spark.sparkContext._jsc.getPersistentRDDs().keySet())
    code = slotscope("key-slots", "--manifest", landing, "--root", root, "--snapshot", "n", "--json")
    printed = capsys.readouterr()

    assert code == PARTIAL
    lines = {row["cluster"]: row for row in map(json.loads, printed.out.splitlines())}
    assert {name: (row["snapshot"], row["state"]) for name, row in lines.items()} == {
        "fine": ("n-fine", "finished"), "lost": (None, "failed"), "torn": (None, "failed"),
    }  # fmt: skip
    assert Path(lines["fine"]["page"]).exists()
    failed = sorted(without_progress(printed.err))
    assert [re.sub(r"/\S+/", "", line) for line in failed] == [
        "slotscope: lost: nodes.txt: offset 0: neither CLUSTER NODES, nodes.conf, nor a reply of CLUSTER SHARDS or SLOTS",
        "slotscope: torn: node-7001.rdb: offset 100000: the file is cut short: it ends before its end mark",
    ]
    runs = read_rows(root, RUNS)
    assert {(run["cluster"], run["snapshot_id"], run["state"]) for run in runs} == {
        ("fine", "n-fine", "complete"), ("torn", "n-torn", "failed"), ("lost", "n-lost", "failed"),
    }  # fmt: skip
    assert all(run["reason"] for run in runs if run["state"] == "failed")
    assert [row["cluster"] for row in read_rows(root, SNAPSHOTS)] == ["fine"]
    assert set(spark.sparkContext._jsc.getPersistentRDDs().keySet()) <= held
