"""A file system of a few kilobytes, where this user may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount it at *folder*, which is made; skips the test where mounting is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield folder
    finally:  # a thread of the engine may still close a file there
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


@contextmanager
def filled(ballast: Path, free_bytes: int) -> Iterator[None]:
    """Leave the disk that *ballast* lies on so many bytes."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(file.tell() - free_bytes)
    try:
        yield
    finally:
        ballast.unlink()
