"""Scenario files are read word by word, and mistakes are told with line and column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.sim.scenario.text import ScenarioError, read_scenario, with_trace

HEAD = "cluster masters=3 replicas=1\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("cluster masters=3 replicas=x\nend 1s\n", 1, 28, "whole number"),
        ("cluster masters=0\nend 1s\n", 1, 9, "one master"),
        ("cluster masters=3 replicas=30\nend 1s\n", 1, 9, "30 replicas"),
        ("cluster masters=3000\nend 1s\n", 1, 9, "more than 2000"),
        ("cluster masters=2 zones=9\nend 1s\n", 1, 9, "zones"),
        ("cluster nodes=3\nend 1s\n", 1, 9, "none of masters="),
        ("settings profile=redis-9.9\nend 1s\n", 1, 18, "no profile"),
        ("settings node-timeout=2\nend 1s\n", 1, 23, "no time"),
        ("network loss=2\nend 1s\n", 1, 14, "more than 1"),
        (HEAD + "at 5 crash M1\nend 9s\n", 2, 4, "no time"),
        (HEAD + "at 5s crash M4\nend 9s\n", 2, 13, "no node"),
        (HEAD + "at 5s explode M1\nend 9s\n", 2, 7, "nothing that can be done"),
        (HEAD + "at 5s crash\nend 9s\n", 2, 12, "missing"),
        (HEAD + "at 5s crash M1 M2\nend 9s\n", 2, 16, "too much"),
        (HEAD + "at 5s\nend 9s\n", 2, 6, "needs a time"),
        (HEAD + "at 5s cut M1 and M2\nend 9s\n", 2, 14, "where from should be"),
        (HEAD + "by 5s crash M1\nend 9s\n", 2, 7, "where expect should be"),
        (HEAD + "at 5s expect M1 is happy\nend 9s\n", 2, 20, "where"),
        (HEAD + "at 5s heal\nat 4s heal\nend 9s\n", 3, 4, "before the step above"),
        (HEAD + "at 5s move-slot 16384 from M1 to M2\nend 9s\n", 2, 17, "16383"),
        (HEAD + "at 5s expect lost 3..1\nend 9s\n", 2, 19, "ends before"),
        (HEAD + "at 5s move-slot 3 from all to M1\nend 9s\n", 2, 24, "one is wanted"),
        (HEAD + "expect state ok\nend 9s\n", 2, 1, "behind the end"),
        (HEAD + "at 5s heal\n", 3, 1, "no line with the end"),
        (HEAD + "end 9s\nend 9s\n", 3, 1, "second end"),
        (HEAD + "end 9s\nat 10s heal\n", 3, 1, "behind the end"),
        (HEAD + "at 1s heal\nseed 3\nend 9s\n", 3, 1, "above the first step"),
        (HEAD + "wibble\nend 9s\n", 2, 1, "begins no line"),
        (HEAD + "then heal\nend 9s\n", 2, 1, "follows a step"),
        (HEAD + "by 5s expect state ok\nthen\nend 9s\n", 3, 5, "then what"),
        (HEAD + "x" * 2000 + "\nend 9s\n", 2, 1000, "characters"),
    ],
)
def test_a_mistake_is_told_where_it_stands(text, line, column, reason):
    """Line and column count from 1 and lead to the word."""
    with pytest.raises(ScenarioError, match=reason) as caught:
        read_scenario(text, "x.txt")

    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"x.txt:{line}:{column}: ")


def test_quotes_hold_words_together_and_a_hash_begins_a_comment():
    """What is expected may have spaces in it."""
    scenario = read_scenario(HEAD + 'at 1s expect M1 answers "MOVED 5 10.0.0.2" to GET k # not here\nend 2s\n')

    assert scenario.steps[0].values == (("M1",), "answers", "MOVED 5 10.0.0.2", ("GET", "k"))


def test_groups_zones_and_lists_name_nodes():
    """`others` are those that the words before did not name."""
    scenario = read_scenario(
        "cluster masters=2 replicas=1 zones=2\nat 1s cut Z1 from others\nat 2s crash M1,replicas\nend 3s\n"
    )

    assert scenario.steps[0].values == (("M1", "R2"), ("M2", "R1"))
    assert scenario.steps[1].values == (("M1", "R1", "R2"),)


def test_a_trace_below_the_line_is_kept_and_replaced():
    """The scenario itself stays as it was written."""
    text = HEAD + "end 1s\n"

    assert read_scenario(text).trace == ()
    assert read_scenario(with_trace(text, ("a", "b"))).trace == ("a", "b")
    assert with_trace(with_trace(text, ("a",)), ("b",)) == with_trace(text, ("b",))


@given(st.text(alphabet=st.sampled_from('atbyend cluster=masters 0123s.,\n"#M1R+-hexpct\x00é'), max_size=200))
def test_no_text_does_anything_but_be_read_or_refused(text):
    """Bytes from outside never crash."""
    try:
        told = f"ends at {read_scenario(text).end_us}"
    except ScenarioError as error:
        told = str(error)

    assert told.startswith(("ends at ", "<scenario>:"))
