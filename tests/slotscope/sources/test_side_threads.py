"""Threads beside a task: what they make comes in the order of the task, whenever each of them is done."""

from collections.abc import Iterator
from threading import Event

import pytest

from slotscope.sources.bus.side_threads import AHEAD, SideWork, ahead


def test_what_threads_make_comes_in_the_order_in_which_it_was_given() -> None:
    second_is_done = Event()

    def first() -> Iterator[str]:
        assert second_is_done.wait(60)
        yield "first"

    def second() -> Iterator[str]:
        yield "second"
        second_is_done.set()

    with SideWork(2) as side:
        side.give(first)
        side.give(second)
        found = list(side.rest())

    assert found == ["first", "second"]


def test_what_fails_ahead_is_raised_when_its_turn_comes() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    made = ahead(items())
    found = [next(made), next(made)]
    with pytest.raises(ValueError, match="the third"):
        next(made)

    assert found == [1, 2]


def test_little_is_made_that_nobody_asks_for() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    taken = ahead(items())
    first = next(taken)
    taken.close()  # type: ignore[attr-defined]

    assert first == 0
    assert len(made) <= 2 + AHEAD
