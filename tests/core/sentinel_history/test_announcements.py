"""Texts of events."""

from __future__ import annotations

from cluster_core.sentinel.instance import Address
from cluster_core.sentinel_history.announcements import (
    read_announcement,
    read_switch,
    told_by_log,
)
from cluster_core.sentinel_history.evidence import Told


def test_an_event_names_its_instance_and_its_master() -> None:
    """sentinelEvent: ``%@`` is type, name, ip, port, and the master behind ``@``."""
    said = read_announcement("slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379 new reported role is master")

    assert (said.role, said.name, said.address) == ("slave", "10.0.0.2:6379", Address("10.0.0.2", 6379))
    assert (said.master, said.master_address) == ("mymaster", Address("10.0.0.1", 6379))
    assert said.rest == "new reported role is master"


def test_an_event_of_a_master_names_it_once() -> None:
    """The quorum stands behind it."""
    said = read_announcement("master mymaster 10.0.0.1 6379 #quorum 2/2")

    assert (said.role, said.master, said.rest) == ("master", "mymaster", "#quorum 2/2")


def test_a_text_in_no_form_is_all_rest() -> None:
    """Hostile texts name nothing."""
    for text in ("", "master", "slave a b c", "@ @ @ @", "master x y 99x", "\x00" * 50):
        assert read_announcement(text).role == ""
        assert read_switch(text) is None


def test_a_switch_names_both_addresses() -> None:
    """S4, S14."""
    switch = read_switch("mymaster 10.0.0.1 6379 10.0.0.2 6380")

    assert switch is not None
    assert (switch.before, switch.after) == (Address("10.0.0.1", 6379), Address("10.0.0.2", 6380))


def test_lines_of_a_log_are_events_votes_and_delays() -> None:
    """Other lines tell nothing."""
    assert told_by_log(1, "+sdown master m 1.1.1.1 1") == Told(1, "+sdown", "master m 1.1.1.1 1")
    assert told_by_log(1, f"{'b' * 40} voted for {'a' * 40} 3") == Told(1, "voted", f"{'b' * 40} {'a' * 40} 3")
    delayed = told_by_log(1, "Next failover delay: I will not start a failover before Sat Nov 21 09:55:23 2026")
    assert delayed is not None
    assert delayed.channel == "failover-delayed"
    assert told_by_log(1, "Sentinel new configuration saved on disk") is None
