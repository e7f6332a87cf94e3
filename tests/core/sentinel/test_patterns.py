"""Glob patterns of PSUBSCRIBE, RESET and CONFIG GET (stringmatchlen)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.sentinel.text import matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("+*", "+sdown", True),
        ("+*", "-sdown", False),
        ("?sdown", "+sdown", True),
        ("[-+]sdown", "+sdown", True),
        ("[+-]sdown", "-sdown", False),  # the dash makes the bracket the end of a range that is never closed
        ("[^+]sdown", "+sdown", False),
        ("[a-c]x", "bx", True),
        ("[c-a]x", "bx", True),
        (r"\*", "*", True),
        (r"\*", "x", False),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXbY", False),
        ("[", "[", False),
        ("abc", "ab", False),
        ("", "", True),
    ],
)
def test_patterns_match_as_in_the_server(pattern, text, expected):
    """stringmatchlen."""
    assert matches(pattern.encode(), text.encode()) is expected


@given(st.text(alphabet="ab*?", max_size=12), st.text(alphabet="ab", max_size=12))
def test_stars_and_question_marks_are_those_of_a_regular_expression(pattern, text):
    """The plain part against an independent matcher."""
    expression = "".join({"*": ".*", "?": "."}.get(letter, letter) for letter in pattern)

    assert matches(pattern.encode(), text.encode()) is (re.fullmatch(expression, text) is not None)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_pattern_ends(pattern, text):
    """A client's pattern raises nothing, and is decided in bounded time."""
    assert matches(pattern, text) in (True, False)


def test_many_stars_are_no_trouble():
    """A pattern that makes a naive matcher try for ever."""
    assert not matches(b"a*" * 500 + b"b", b"a" * 2000)
