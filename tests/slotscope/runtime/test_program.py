"""The name that printed commands begin with, and the folder of what can be made again."""

from __future__ import annotations

import shutil
import sys

import pytest

from cluster_core.kernels import code_cache
from slotscope.runtime.program import cache_folder, program_name


@pytest.mark.parametrize(
    ("started", "path", "name"),
    [
        ("/x/.venv/bin/slotscope", None, "/x/.venv/bin/slotscope"),
        ("/a b/slotscope", None, "'/a b/slotscope'"),
        ("/x/.venv/bin/slotscope", "/usr/bin/slotscope", "slotscope"),
        ("/x/jobs/key_slots.py", None, "slotscope"),
    ],
)
def test_a_printed_command_begins_with_a_program_that_a_shell_runs(monkeypatch, started, path, name):
    """After set-up in a clone the program is not on the path."""
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setattr(shutil, "which", lambda _: path)

    assert program_name() == name


@pytest.mark.parametrize("value", ["", "relative"])
def test_a_relative_cache_folder_counts_as_not_set(monkeypatch, tmp_path, value):
    """The XDG specification; compiled code would else lie in the folder that we are in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")

    assert cache_folder() == tmp_path / ".cache" / "slotscope"
    assert code_cache._cache_folder() == f"{tmp_path}/.cache/slotscope"
