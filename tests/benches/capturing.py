"""Whether this machine may capture packets."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def needs_capture() -> None:
    """Skip where tcpdump is not installed, or may not capture."""
    program = shutil.which("tcpdump")
    if program is None:
        pytest.skip("tcpdump is not installed")
    tried = subprocess.run(
        [program, "-i", "lo", "-c", "1", "--immediate-mode", "-w", "-", "udp port 9"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=1, check=False,
    ) if os.geteuid() else None  # fmt: skip
    if tried is not None and tried.returncode:
        pytest.skip("tcpdump may not capture here")
