"""Commands that pages show, run as they stand in a folder with the files that the pages name."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.demo import lay_out
from tests.benches.program import slotscope

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("pip install", "make ", "slotscope demo", "cd slotscope-demo", "spark-submit")
"""Run by other tests: tests/jobs/test_installed.py, test_demo.py, test_ways_to_run.py, and by whoever runs these."""


class Printed(NamedTuple):
    """What a command printed, and its exit code."""

    text: str
    code: int


class Shown:
    """A command of a page with the lines below it."""

    def __init__(self, text: str) -> None:
        lines = text.splitlines(keepends=True)
        taken = 1
        while lines[taken - 1].endswith("\\\n"):
            taken += 1
        self.text = text
        self.line = "".join(lines[:taken])
        self.command = self.line.removeprefix("$ ").replace("\\\n", " ").split("  #")[0].strip()
        self.output = [line.rstrip() for line in lines[taken:]]

    def missing(self, printed: str) -> list[str]:
        """Lines that are shown and were not printed; ``…`` stands for lines left out."""
        there = {line.rstrip() for line in printed.splitlines()}
        return [line for line in self.output if line not in ("…", "") and line not in there]

    def rewritten(self, printed: str) -> str:
        """The example with as many lines of the current output, from the same start of each part."""
        now = [line.rstrip() for line in printed.strip("\n").splitlines()]
        lines: list[str] = []
        place = 0
        for at, line in enumerate(self.output):
            begins = at == 0 or self.output[at - 1] == "…"
            if line == "…":
                lines.append(line)
                continue
            if begins and line.split():
                place = next((n for n, text in enumerate(now) if text.split()[:1] == line.split()[:1]), place)
            lines.append(now[place] if place < len(now) else "")
            place += 1
        return self.line + "".join(f"{line}\n" for line in lines)


def shown(page: str) -> list[Shown]:
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    return [
        Shown(part) for block in blocks for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE) if part.strip()
    ]


def furnish(folder: Path) -> None:
    """Put the files that the pages name into *folder*."""
    lay_out(folder)
    (folder / "tests").symlink_to(ROOT / "tests")
    with tarfile.open(DATA / "aof" / "recorded.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(folder / "aof")
    (folder / "appendonlydir").symlink_to(folder / "aof" / "redis-7.0" / "aof-preamble")


def run_page(page: str, folder: Path, known: dict[str, Printed]) -> dict[str, Printed]:
    """Run the commands of *page* in *folder*, in their order; those that are *known* are not run again."""
    outputs = dict(known)
    with chdir(folder), pytest.MonkeyPatch.context() as changed:
        changed.setenv("COLUMNS", "80")
        changed.delenv("SLOTSCOPE_ROOT", raising=False)
        for block in shown(page):
            if block.command not in outputs and not block.command.startswith(ELSEWHERE):
                outputs[block.command] = run(block.command)
    return outputs


def run(command: str) -> Printed:
    """Run a job in this process and its session; run other programs in their own process."""
    arguments = shlex.split(command)
    if arguments[0] != "slotscope":
        assert arguments[:2] == ["python", "-m"], command
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            [sys.executable, *arguments[1:]], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return Printed(ended.stdout, ended.returncode)
    with redirect_stdout(io.StringIO()) as printed:
        code = slotscope(*arguments[1:])
    return Printed(printed.getvalue(), code)
