"""What was compiled once is found by other users, and by executors."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cluster_core.kernels.key_slots import key_slots
from slotscope.runtime import compiled_code


@pytest.fixture(scope="module")
def compiled() -> None:
    """Code of a kernel is in this user's cache."""
    assert key_slots(pa.array([b"foo"])).tolist() == [12182]


@pytest.mark.long
def test_a_user_with_an_empty_cache_takes_what_set_up_has_packed(compiled, tmp_path, monkeypatch):
    packed, home = tmp_path / "packed", tmp_path / "home"
    count = compiled_code.pack_beside_programs(packed)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(home))

    taken = compiled_code.take_packed(packed)

    assert taken == count > 0
    assert files_of(home / "slotscope") == files_of(packed)
    assert compiled_code.take_packed(packed) == 0


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_first_read_is_announced_until_there_is_compiled_code(monkeypatch, tmp_path):
    """In a notebook nothing else shows why it takes a minute."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = compiled_code.compiling_notice()
    (tmp_path / "slotscope" / f"kernel-{'0' * 32}").mkdir(parents=True)

    assert before.startswith("slotscope: the first read compiles")
    assert compiled_code.compiling_notice() == ""
