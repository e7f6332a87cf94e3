"""Hostile evidence: nothing crashes, hangs or grows without bound, whatever logs and polls say."""

from __future__ import annotations

import json
from random import Random

import pytest

from cluster_core.errors import DecodeError
from cluster_core.sentinel_history.announcements import read_announcement, read_event, read_switch
from cluster_core.sentinel_history.evidence import Evidence, SentinelReplies, read_poll_line
from cluster_core.sentinel_history.history import STATES
from cluster_core.sentinel_history.incidents import find_sentinel_incidents, step_text, summary_of
from tests.benches.sentinel_recordings import ME, MS_NS, OF_MASTER, fold, line, watched

SEED = 20261121
MUTATIONS = 10_000
CHANNELS = (
    *STATES, "+new-epoch", "+vote-for-leader", "voted", "+switch-master", "+tilt", "-tilt", "+monitor", "-monitor", "+slave",
    "+sentinel", "+sentinel-invalid-addr", "+sentinel-address-switch", "+sdown", "-sdown", "+odown", "-odown",
    "+try-failover", "+selected-slave", "+promoted-slave", "+slave-reconf-sent", "+slave-reconf-sent-be",
    "+slave-reconf-inprog", "+slave-reconf-done", "-slave-reconf-sent-timeout", "-failover-abort-not-elected",
    "-failover-abort-no-good-slave", "-failover-abort-slave-timeout", "-failover-abort-master-timeout", "+role-change",
    "-role-change", "+reset-master", "+set",
)  # fmt: skip
TEXTS = (
    b"master mymaster 10.0.0.1 6379 #quorum 2/2", b"slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379",
    b"mymaster 10.0.0.1 6379 10.0.0.2 6379", b"%s 3" % ME.encode(), b"sentinel %s 10.0.0.12 26379 @ mymaster 10.0.0.1 1" % (b"b" * 40),
)  # fmt: skip


def mutated(data: bytes, rng: Random) -> bytes:
    """A byte changed, dropped or doubled, or the rest cut off."""
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    return (data[:at] + data[at + 1 :], data[:at] + data[at : at + 9] * 2 + data[at:], data[:at])[kind - 1]


@pytest.mark.long
def test_mutated_text_changes_beliefs_at_most() -> None:
    rng = Random(SEED)
    incidents = 0
    for _ in range(MUTATIONS // 100):
        items: list[Evidence] = watched()
        for number in range(100):
            at_ms = 2000 + number * 40
            text = mutated(rng.choice(TEXTS), rng).decode("utf-8", "replace")
            if rng.randrange(4):
                items.append(line(at_ms, rng.choice(CHANNELS), text))
            else:
                fields = dict(zip(("name", "ip", "port", "flags"), (*text.split(" "), "", "", "", ""), strict=False))
                items.append(SentinelReplies(at_ms * MS_NS, at_ms * MS_NS, (fields,), (fields,)))
        for incident in find_sentinel_incidents(fold(items)):
            incidents += 1
            assert summary_of(incident, {})
            assert all(step_text(step, {}) for step in incident.steps)
    assert incidents > 0


def test_lines_of_logs_and_polls_survive_mutation() -> None:
    rng = Random(SEED)
    poll = json.dumps(
        {
            "t": 1795254894896657338, "port": 24010, "kind": "sentinel", "masters": [["name", "m", "ip", "1.1.1.1", "port", "1"]],
            "sentinels": [["name", "b" * 40]],
        }
    ).encode()  # fmt: skip
    refused = []
    for _ in range(MUTATIONS):
        try:
            read_poll_line(mutated(poll, rng), line=7, source="polls")
        except DecodeError as error:
            refused.append(str(error))
        text = mutated(b"+slave slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379", rng).decode(
            "utf-8", "replace"
        )
        read_event(1, text)
        read_announcement(text)
        read_switch(text)
    assert 0 < len(refused) < MUTATIONS
    assert all("polls: offset 7" in reason for reason in refused)


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"1", b"{" * 100_000, b'{"masters": 1, "t": 1, "port": 1}', b'{"masters": [], "t": "x", "port": 1}',
     b'{"masters": [["name"]], "t": 1, "port": 1}', b'{"masters": [], "t": 1}', b'{"masters": [], "t": 1e999, "port": 1}'],
)  # fmt: skip
def test_an_invalid_poll_line_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError) as refused:
        read_poll_line(raw, line=3, source="polls")

    assert (refused.value.source, refused.value.offset) == ("polls", 3)


def test_false_numbers_do_no_harm() -> None:
    huge = "9" * 300
    items = [
        *watched(),
        line(2200, "+new-epoch", huge),
        line(2300, "+monitor", f"master other 10.0.0.1 {huge} quorum {huge}"),
        line(2400, "+vote-for-leader", f"{ME} {huge}"),
    ]

    assert fold(items).views


@pytest.mark.long
def test_masters_without_end_are_not_kept() -> None:
    """A fake that watches ten thousand masters is kept at a thousand."""
    history = fold([line(at, "+monitor", f"master m{at} 10.0.0.1 {at} quorum 2") for at in range(1, 1200)])

    assert sum(row.valid_to_ns is None for row in history.views) == 1000


def test_times_that_jump_by_years_do_not_hang() -> None:
    year_ms = 31_536_000_000

    assert fold([*watched(), line(30 * year_ms, "+sdown", OF_MASTER)]).last_ns >= 30 * year_ms * MS_NS
