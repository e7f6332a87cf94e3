"""Names of snapshots and clusters: given, made of the time, or the latest."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from schemas.runs import CLUSTERS, RUNS
from schemas.silver import SLOT_LOAD
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import KEY_JOBS, find_name, finished_names, name_before, running
from tests.builders.stored_rows import store

START = datetime(2026, 11, 23, 2, 0, tzinfo=UTC)
NODES = [letter * 40 for letter in "abc"]


def stored(root, name, day, **more):
    store(
        str(root), name, {SLOT_LOAD: [{"slot": 1, "keys": 1}]}, job="key-slots", data_at=datetime(2026, 11, day), **more
    )


def unnamed(root, **more):
    with running(str(root), "key-slots", None, started_at=START, **more) as run:
        pass
    return run.name


def test_unnamed_snapshots_have_unique_names_of_time_and_cluster(tmp_path):
    names = [unnamed(tmp_path), unnamed(tmp_path), unnamed(tmp_path, cluster="prod")]

    assert len(set(names)) == 3
    assert all(re.fullmatch(r"2026-11-23T020000Z-(prod-)?[0-9a-f]{6}", name) for name in names)
    assert sorted(row["snapshot_id"] for row in read_rows(str(tmp_path), RUNS)) == sorted(names)


def test_latest_is_the_newest_finished_snapshot_by_the_time_of_its_data(tmp_path):
    """And no name that one can be given."""
    stored(tmp_path, "b", 2)
    stored(tmp_path, "a", 3)
    stored(tmp_path, "c", 1)

    assert finished_names(str(tmp_path), KEY_JOBS, None) == ["c", "b", "a"]
    assert find_name(str(tmp_path), "latest", KEY_JOBS) == "a"
    assert find_name(str(tmp_path), "whatever", KEY_JOBS) == "whatever"
    assert name_before(str(tmp_path), "a", KEY_JOBS) == "b"
    with pytest.raises(InputError, match="no finished snapshot before c"):
        name_before(str(tmp_path), "c", KEY_JOBS)
    with pytest.raises(InputError, match="choose another name"):
        stored(tmp_path, "latest", 4)


def test_several_clusters_need_a_name(tmp_path):
    """No plan is made for another cluster than was meant; the one before is of the same cluster."""
    for day, cluster in ((1, "east"), (2, "west"), (3, "east")):
        stored(tmp_path, f"{cluster}-{day}", day, cluster=cluster)

    with pytest.raises(InputError, match="several clusters: select one with --cluster or --snapshot: east, west"):
        find_name(str(tmp_path), "latest", KEY_JOBS)
    assert find_name(str(tmp_path), "latest", KEY_JOBS, "west") == "west-2"
    assert name_before(str(tmp_path), "east-3", KEY_JOBS) == "east-1"
    with pytest.raises(InputError, match="no finished snapshot of cluster north of slotscope key-slots"):
        find_name(str(tmp_path), "latest", KEY_JOBS, "north")


@pytest.mark.long
def test_a_cluster_is_recognised_by_any_of_its_nodes(tmp_path):
    """Given once, or made of an id; the last name that was given counts; nothing else is taken for a node's id."""

    def seen(name, nodes, **more):
        with running(str(tmp_path), "key-slots", name, **more) as run:
            run.belongs_to(nodes)
            run.append(SLOT_LOAD, [{"slot": 1, "keys": 1}])
        (row,) = read_rows(str(tmp_path), SLOT_LOAD, snapshot_id=name)
        return row["cluster"]

    assert seen("1", ["not-an-id"]) is None
    assert seen("2", NODES[:2]) == "cluster-aaaaaaaa"
    assert seen("3", NODES[1:]) == "cluster-aaaaaaaa"
    assert seen("4", NODES[2:]) == "cluster-aaaaaaaa"
    assert seen("5", NODES, cluster="prod") == "prod"
    assert seen("6", NODES[:1]) == "prod"
    known = {(row["cluster"], row["node_id"]) for row in read_rows(str(tmp_path), CLUSTERS)}
    assert known == {(name, node) for name in ("cluster-aaaaaaaa", "prod") for node in NODES}
