"""Answers of sentinels as JSON lines."""

from __future__ import annotations

import json

from cluster_core.sentinel_history.evidence import read_poll_line


def read(**line: object):
    return read_poll_line(json.dumps({"t": 1795254894896657338, "port": 26379, **line}).encode(), line=1)


def test_instances_are_lists_of_names_and_values_or_objects() -> None:
    """As the reply has them, or as a collector may write them."""
    listed = read(masters=[["name", "m", "port", 6379]])
    named = read(masters=[{"name": "m", "port": 6379}])

    assert listed is not None
    assert listed == named
    assert listed.node == "26379"
    assert listed.polled.masters == ({"name": "m", "port": "6379"},)
    assert listed.polled.replicas is None


def test_replicas_belong_to_the_only_master_or_to_the_one_that_fits() -> None:
    """SENTINEL REPLICAS does not repeat whose they are."""
    masters = [
        {"name": "a", "num-slaves": "1", "num-other-sentinels": "0"},
        {"name": "b", "num-slaves": "1", "num-other-sentinels": "2"},
    ]
    several = read(masters=masters, replicas=[{"name": "x"}], sentinels=[{"name": "s"}, {"name": "t"}])
    told = read(masters=masters, replicas=[], master="a")

    assert several is not None
    assert told is not None
    assert (several.polled.master, told.polled.master) == ("b", "a")


def test_lines_of_another_kind_are_of_something_else() -> None:
    """A recording has other lines beside."""
    assert read(kind="replication") is None
    assert read(kind="sentinel") is None


def test_an_error_instead_of_a_list_is_no_answer() -> None:
    """SENTINEL REPLICAS of a master that was just removed."""
    line = read(masters=[], replicas="-ERR No such master with that name", sentinels=[])

    assert line is not None
    assert (line.polled.replicas, line.polled.sentinels) == (None, ())
