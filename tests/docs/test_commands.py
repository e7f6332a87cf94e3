"""Every command that a page shows is run as it stands, in a folder with the files it names; what is shown below it is what it prints.

``pytest tests/docs/test_commands.py --rewrite`` writes the shown lines anew; read the diff before you keep it.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from jobs.main import main
from tests.conftest import DATA

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "slotscope" / "demo_data"
PAGES = (
    "README.md", "docs/tutorial.md", "docs/aof.md", "docs/bus-dump.md", "docs/memory.md", "docs/rdb-writing.md", "docs/rebalancing.md",
    "docs/replication.md", "docs/simulator.md",
)  # fmt: skip
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("pip install", "make ", "slotscope demo", "spark-submit")
"""Run by other tests: tests/jobs/test_installed.py, test_demo.py, test_ways_to_run.py, and by whoever runs these."""

INFO = """# Server\r\nserver_time_usec:1795263600000000\r\n# Persistence\r\nloading:0\r\nrdb_changes_since_last_save:12\r\n\
rdb_bgsave_in_progress:0\r\nrdb_last_save_time:1795263532\r\nrdb_last_bgsave_status:ok\r\naof_enabled:0\r\n"""
"""What ``redis-cli INFO`` answers, shortened."""

pytestmark = [pytest.mark.spark, pytest.mark.long]


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
        """The same with as many lines of what it prints now, from where each part began."""
        now = [line.rstrip() for line in printed.strip("\n").splitlines()]
        found: list[str] = []
        place = 0
        for at, line in enumerate(self.output):
            begins = at == 0 or self.output[at - 1] == "…"
            if line == "…":
                found.append(line)
                continue
            if begins and line.split():
                place = next((n for n, one in enumerate(now) if one.split()[:1] == line.split()[:1]), place)
            found.append(now[place] if place < len(now) else "")
            place += 1
        return self.line + "".join(f"{line}\n" for line in found)


def shown(page: str) -> list[Shown]:
    """Every command of *page*."""
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    return [
        Shown(part) for block in blocks for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE) if part.strip()
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    load, bus = DEMO / "valkey-9.1", DEMO / "bus-redis-7.0"
    links = {
        "dumps": load / "after",
        "yesterday": load / "before",
        "nodes.txt": load / "topology" / "nodes.txt",
        "bus.pcap.gz": bus / "bus.pcap.gz",
        "logs": bus / "logs",
        "polls.jsonl.gz": bus / "polls.jsonl.gz",
        "clients.pcap.gz": DATA / "psync" / "redis-7.0" / "resp.pcap.gz",
        "tests": ROOT / "tests",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "info.txt").write_text(INFO)
    with tarfile.open(DATA / "aof" / "recorded.tar.xz") as archive:
        archive.extractall(tmp_path / "aof", filter="data")
    (tmp_path / "appendonlydir").symlink_to(tmp_path / "aof" / "redis-7.0" / "aof-preamble")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("SLOTSCOPE_ROOT", raising=False)
    return tmp_path


def run(command: str) -> tuple[str, int]:
    """What *command* prints, and its exit code: a job in this process, whose session it shares; else a process."""
    words = shlex.split(command)
    if words[0] != "slotscope":
        assert words[:2] == ["python", "-m"], command
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            [sys.executable, *words[1:]], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return ended.stdout, ended.returncode
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            main(words[1:])
        except SystemExit as ended_job:
            return printed.getvalue(), int(ended_job.code or 0)
    return printed.getvalue(), 0


def test_pages_show_commands() -> None:
    assert {page: len(shown(page)) > 0 for page in PAGES} == dict.fromkeys(PAGES, True)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs_as_it_stands(
    spark: Any, folder: Path, page: str, request: pytest.FixtureRequest
) -> None:
    wrong: dict[str, object] = {}
    text = (ROOT / page).read_text("utf-8")
    for one in shown(page):
        if one.command.startswith(ELSEWHERE):
            continue
        printed, code = run(one.command)
        if request.config.getoption("--rewrite", default=False):
            text = text.replace(one.text, one.rewritten(printed))
        elif code != 0 or one.missing(printed):
            wrong[one.command] = code or one.missing(printed)
    (ROOT / page).write_text(text, "utf-8")

    assert wrong == {}
