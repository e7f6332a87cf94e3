"""The name that printed commands begin with."""

from __future__ import annotations

import shutil
import sys

import pytest

from slotscope.runtime.program import program_name


@pytest.mark.parametrize(
    ("started", "found", "name"),
    [
        ("/x/.venv/bin/slotscope", None, "/x/.venv/bin/slotscope"),
        ("/a b/slotscope", None, "'/a b/slotscope'"),
        ("/x/.venv/bin/slotscope", "/usr/bin/slotscope", "slotscope"),
        ("/x/jobs/key_slots.py", None, "slotscope"),
    ],
)
def test_a_printed_command_begins_with_what_a_shell_finds(monkeypatch, started, found, name):
    """After set-up in a clone the program is not on the path."""
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setattr(shutil, "which", lambda _: found)

    assert program_name() == name
