"""Progress: silence for short work, a line for long work."""

from __future__ import annotations

import re
import time

import pytest

from slotscope.runtime import progress as module
from slotscope.runtime.progress import progress
from tests.benches.servers import wait_for


@pytest.fixture(autouse=True)
def causes(monkeypatch):
    """What makes steps slower: nothing, whatever other tests compile."""
    causes = []
    monkeypatch.setattr(module, "_causes", causes)
    return causes


def first_line(capsys) -> str:
    """What progress writes first."""
    lines: list[str] = []
    wait_for(lambda: lines.append(capsys.readouterr().err) or lines[-1], "a line")
    return lines[-1]


def test_short_work_prints_nothing(capsys):
    """Nobody minds a few seconds."""
    with progress("reading"):
        pass

    assert capsys.readouterr().err == ""


def test_long_work_without_a_terminal_prints_plain_lines(capsys, monkeypatch):
    """A log file gets a line now and then, without escape sequences."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)

    with progress("reading"):
        line = first_line(capsys)

    assert re.fullmatch(r"slotscope: reading, \d+ s so far\n", line)


def test_a_step_that_is_slow_only_once_names_the_reason(causes, capsys, monkeypatch):
    """A first run compiles; its user shall not believe that every run takes as long."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    module.explain(lambda began_at: "compiling, once" if time.time() - began_at < 60 else "")

    with progress("reading", lambda: "3 files"):
        line = first_line(capsys)

    assert causes != []
    assert re.fullmatch(r"slotscope: reading, 3 files, compiling, once, \d+ s so far\n", line)
