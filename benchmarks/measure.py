"""Time of programs.

CPU seconds (user and system, the figure to trust on a shared machine), wall seconds and peak memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Timing:
    """The least of several runs of one program, each figure on its own; *answer* is what its last run printed."""

    cpu_s: float
    wall_s: float
    peak_bytes: int
    answer: str


class RunError(RuntimeError):
    """A program that ended with an error, or could not be started; the message is one line that says why."""


def run_program(
    command: Sequence[str | Path], runs: int, *, accept: Callable[[str], bool] = lambda answer: True
) -> Timing:
    """Run *command* several times and return the least CPU, wall and peak memory.

    Raises RunError when it cannot be started, its exit code is not 0 or *accept* refuses what it printed (some tools
    exit 0 on errors).
    """
    timings = [_run_once([str(word) for word in command], accept) for _ in range(runs)]
    return Timing(
        cpu_s=min(timing.cpu_s for timing in timings),
        wall_s=min(timing.wall_s for timing in timings),
        peak_bytes=min(timing.peak_bytes for timing in timings),
        answer=timings[-1].answer,
    )


def run_json(module: str, *arguments: str | Path) -> dict[str, Any]:
    """Run ``python -m module`` in a fresh process and return the JSON object that it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return dict(json.loads(_run_once(command, lambda answer: True).answer.splitlines()[-1]))


def _run_once(command: list[str], accept: Callable[[str], bool]) -> Timing:
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        except OSError as error:
            raise RunError(f"{command[0]}: {error.strerror}") from error
        watch = _PeakWatch(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        watch.join()
        process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait again
        output.seek(max(0, output.seek(0, os.SEEK_END) - 65_536))
        answer = output.read().decode(errors="replace")
    if process.returncode != 0 or not accept(answer):
        raise RunError(f"exit code {process.returncode}: {_complaint(answer)[:160]}")
    return Timing(usage.ru_utime + usage.ru_stime, wall, watch.peak_bytes, answer)


def _complaint(answer: str) -> str:
    """Return the line that says what went wrong: the first with a word for it, else the last."""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in ("wrong", "can't handle", "unsupported"))]
    return (telling or lines[-1:] or ["no output"])[0]


class _PeakWatch(threading.Thread):
    """Reads the peak memory of a program while it runs.

    What the kernel reports at its end includes the process that started it.
    """

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._status = Path(f"/proc/{process}/status")
        self.start()

    def run(self) -> None:
        """Poll until the program is gone."""
        while True:
            try:
                lines = self._status.read_text().splitlines()
            except OSError:
                return
            peak = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
            if peak is None:  # ended, not yet waited for
                return
            self.peak_bytes = max(self.peak_bytes, peak)
            time.sleep(_POLL_SECONDS)


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(root: int | None = None) -> float:
    """Return the CPU seconds of process *root* (this one) and all processes below it, ended and waited-for ones too."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        parents[int(entry)] = int(fields[1])
        seconds[int(entry)] = sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    top = os.getpid() if root is None else root
    return sum(spent for process, spent in seconds.items() if _is_below(process, top, parents))


def _is_below(process: int, top: int, parents: dict[int, int]) -> bool:
    while process != top:
        if process not in parents:
            return False
        process = parents[process]
    return True
