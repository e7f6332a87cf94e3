"""What a server that keeps only dumps would lose: save points, changes since the last save, and how old a dump is."""

from __future__ import annotations

import time

import pytest

from cluster_core.load.persistence import (
    Persistence,
    SavePoint,
    age,
    changes_at_risk,
    describe_persistence,
    read_persistence,
    read_save_points,
)
from cluster_core.wire.resp import read_info
from tests.benches.servers import redis_binary, running, valkey_binary, wait_for

pytestmark = pytest.mark.servers

BINARIES = {"redis": redis_binary, "valkey": valkey_binary}
DEFAULT = (SavePoint(3600, 1), SavePoint(300, 100), SavePoint(60, 10_000))


def told(**changes: object) -> Persistence:
    """A node that has changed 600 times in the ten minutes since its last save."""
    return Persistence("10.0.0.1:7000", 2_000_000, 1_400_000, 600, DEFAULT, False, False, None)._replace(**changes)


@pytest.mark.parametrize(
    ("words", "points"),
    [
        ("3600 1 300 100 60 10000", DEFAULT),
        ("", ()),
        ('""', ()),
        ("60", None),
        ("a b", None),
        ("-1 5", None),
        ("9" * 30 + " 1", None),
        ("1 1 " * 101, None),
    ],
)
def test_save_points_are_read_as_the_server_gives_them(words, points):
    assert read_save_points(words) == points


@pytest.mark.parametrize(
    ("changes", "saving_s", "risk"),
    [
        (600, None, 301),  # one a second: the point of 300 s and 100 changes is the first to be met
        (600, 9, 310),  # and what is changed while it saves
        (6, None, 36),  # one in 100 s: after an hour
        (60_000, None, 10_000),  # 100 a second: after 100 s, when 10,000 are counted
        (600_000, None, 61_000),  # 1,000 a second: after 61 s
        (0, None, 0),
    ],
)
def test_the_first_point_that_is_met_bounds_what_is_lost(changes, saving_s, risk):
    """`serverCron`: so many changes counted, and more than so many seconds since the last save."""
    assert changes_at_risk(told(changes=changes, saving_s=saving_s)) == risk


def test_the_sentences_say_what_a_crash_would_have_lost():
    text = "; ".join(describe_persistence(told()))

    assert (
        "10.0.0.1:7000 last saved 10 min before it was asked, 600 changes ago: a crash then would have lost them"
        in text
    )
    assert "after 3,600 s with 1 change, after 300 s with 100 changes, after 60 s with 10,000 changes" in text
    assert "loses up to 301 changes" in text
    assert "its append-only log holds them" in describe_persistence(told(log=True))[0]
    assert "lost nothing" in describe_persistence(told(changes=0))[0]
    assert "its last attempt to save has failed" in describe_persistence(told(failed=True))[1]
    assert "saves only when told to" in describe_persistence(told(points=()))[1]
    assert len(describe_persistence(told(points=None))) == 1


def test_a_reply_without_the_fields_or_with_wild_ones_tells_nothing():
    assert read_persistence({"loading": "0"}, node="n", at_ms=0, save=None) is None
    assert (
        read_persistence(
            {"rdb_last_save_time": "9" * 40, "rdb_changes_since_last_save": "1"}, node="n", at_ms=0, save=None
        )
        is None
    )


@pytest.mark.parametrize(
    ("passed_ms", "words"),
    [(0, "0 s"), (999, "0 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h"), (90_061_000, "1 d 1 h"), (-5, "0 s")],
)
def test_an_age_has_its_two_largest_units(passed_ms, words):
    assert age(passed_ms) == words


@pytest.mark.parametrize("server", BINARIES)
def test_a_real_server_that_is_killed_loses_the_changes_that_it_told(server):
    """INFO persistence just before SIGKILL against what is there after the restart."""
    binary = BINARIES[server]()
    if binary is None:
        pytest.skip(f"{server}-server is not installed")
    with running(binary, save="3600 1000") as started:
        started.ask([["SET", f"kept{number}", "v"] for number in range(20)])
        started.call("SAVE")
        started.ask([["SET", f"lost{number}", "v"] for number in range(7)])
        info = read_info(started.raw_reply("INFO", "persistence"))
        save = started.call("CONFIG", "GET", "save")[1].decode()
        poll = read_persistence(info, node="n", at_ms=time.time_ns() // 1_000_000, save=save)
        started.kill()
        started.start_again()
        wait_for(lambda: started.call("PING") == b"PONG", "the server")

        assert poll is not None
        assert (poll.changes, poll.points, poll.log, poll.failed) == (7, (SavePoint(3600, 1000),), False, False)
        assert started.call("DBSIZE") == 27 - poll.changes
