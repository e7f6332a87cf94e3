"""`slotscope lab route`: what a node would have answered to a command, from the tables of a replay."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_core.slots.key_slot import key_slot
from jobs.main import main
from slotscope.pipelines.bus.past_views import past_answer
from slotscope.runtime.errors import InputError
from tests.builders.history_builder import A, B, R, ns

OF_A, OF_B, OF_NOBODY = (
    next(key for key in map("key:{}".format, range(99999)) if first <= key_slot(key.encode()) <= last)
    for first, last in ((0, 99), (100, 199), (300, 16383))
)
SLOT = key_slot(OF_A.encode())


@pytest.fixture(scope="module")
def root(told_root: str) -> str:
    """A replayed failover: R takes the slots of A at 13.7 s."""
    return told_root


def answer(root: str, observer: str, at_s: float, *words: str, **options: Any) -> str:
    options = {"partial_coverage": True, **options}
    return past_answer(words, root=root, snapshot="one", observer=observer, at=str(ns(at_s)), **options).text


@pytest.mark.parametrize(
    ("observer", "at_s", "words", "line"),
    [
        (B, 1, ("GET", OF_B), "serves GET itself"),
        (B, 1, ("GET", OF_NOBODY), "-CLUSTERDOWN Hash slot not served"),
        (B, 1, ("MGET", OF_A, OF_B), "-CROSSSLOT Keys in request don't hash to the same slot"),
        (B, 1, ("PING",), "serves PING itself"),
        (R, 14, ("SET", OF_A, "1"), "serves SET itself"),
        (A, 19, ("SET", OF_A, "1"), "serves SET itself"),
    ],
)
def test_a_node_answers_by_what_it_believed_then(root, observer, at_s, words, line):
    """R115 to R120; the old master does not know yet, so it takes writes that are lost (R111)."""
    assert answer(root, observer, at_s, *words).endswith(line)


def test_a_replica_serves_reads_to_a_client_that_said_so(root):
    """R119: READONLY, and only reads."""
    assert answer(root, R, 1, "GET", OF_A, readonly=True).endswith("serves GET itself")
    assert answer(root, R, 1, "SET", OF_A, "1", readonly=True).startswith(f"-MOVED {SLOT} ")
    assert answer(root, R, 1, "GET", OF_A).startswith(f"-MOVED {SLOT} ")


@pytest.mark.parametrize("server", ["redis-7.0", "valkey-9.1"])
def test_slots_without_owner_stop_the_cluster_unless_told_otherwise(root, server):
    """R107: cluster-require-full-coverage yes is the default."""
    line = answer(root, B, 1, "GET", OF_B, partial_coverage=False, server=server)

    assert line == "-CLUSTERDOWN The cluster is down"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at": "yesterday"}, "no time"),
        ({"at": "1000000000"}, "holds no view"),
        ({"observer": "f" * 40}, "f" * 40),
        ({"server": "redis-2.8"}, "redis-2.8"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(root, options, words):
    """Each with a word about what is wrong."""
    asked = {"root": root, "snapshot": "one", "observer": B, "at": str(ns(1)), **options}

    with pytest.raises((InputError, LookupError), match=words):
        past_answer(("GET", "k"), **asked)


def test_words_of_the_command_may_look_like_options(root, capsys):
    """Everything behind -- belongs to the command; hostile text is escaped."""
    words = ["--root", root, "--snapshot", "one", "--observer", B, "--at", str(ns(1)), "--partial-coverage"]
    with pytest.raises(SystemExit) as ended:
        main(["route", *words, "--", "NO\x1b[31m", "--at", "5"])

    assert ended.value.code == 0
    assert r"serves 'NO\x1b[31m' itself" in capsys.readouterr().out
