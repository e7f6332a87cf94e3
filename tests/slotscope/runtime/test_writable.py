"""A root that cannot be written is said in one line, before Spark starts and anything is read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.main import main
from slotscope.runtime.errors import InputError
from slotscope.runtime.stores import check_writable
from tests.benches.small_disk import mounted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 600 kB, where this user may mount one."""
    with mounted(tmp_path / "disk", 600) as folder:
        yield folder


def test_a_root_that_can_be_written_is_made_and_left_empty(tmp_path):
    check_writable(str(tmp_path / "new" / "root"))

    assert list((tmp_path / "new" / "root").iterdir()) == []


def test_a_file_in_the_place_of_the_root_is_one_line(tmp_path, capsys):
    (tmp_path / "root").write_text("")
    (tmp_path / "keys.txt").write_text("a\n")

    with pytest.raises(SystemExit) as ended:
        main(["key-slots", "--root", str(tmp_path / "root"), "--keys", str(tmp_path / "keys.txt")])

    assert ended.value.code == 2
    assert capsys.readouterr().err == f"slotscope: {tmp_path}/root: cannot be written: File exists\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root but a file system")
def test_a_folder_without_rights_is_one_line(tmp_path):
    (tmp_path / "root").mkdir(mode=0o500)

    with pytest.raises(InputError, match="root: cannot be written: Permission denied"):
        check_writable(str(tmp_path / "root"))


def test_a_full_disk_is_one_line(small_disk):
    with pytest.raises(InputError, match="disk: cannot be written: No space left on device"):
        check_writable(str(small_disk))
    assert list(small_disk.iterdir()) == []


def test_a_file_system_that_is_mounted_read_only_is_one_line(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    with pytest.raises(InputError, match="cannot be written: Read-only file system"):
        check_writable(str(small_disk))
