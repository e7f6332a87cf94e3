"""The program as a user calls it: within the test's own process, or in one that a test may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jobs import main
from slotscope.runtime import cli

REPOSITORY = Path(__file__).parents[2]


class Program(subprocess.Popen[bytes]):
    """``slotscope ARGUMENTS`` in a process of its own, killed at the end of a ``with`` block."""

    def __init__(self, *arguments: object, environment: Mapping[str, str] | None = None) -> None:
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(
            [sys.executable, "-m", "jobs.main", *map(str, arguments)], cwd=REPOSITORY,
            env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, stderr=self._messages,
        )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        self.crash()
        self._messages.close()

    def crash(self) -> None:
        """End it without a word to it."""
        self.kill()
        self.wait(60)

    def end(self, number: int = signal.SIGTERM, seconds_max: float = 120) -> str:
        """Send a signal, as a service manager does; return the error stream."""
        self.send_signal(number)
        return self.messages(seconds_max)

    def messages(self, seconds_max: float = 120) -> str:
        """Wait for its end; return the error stream."""
        self.wait(seconds_max)
        self._messages.seek(0)
        return self._messages.read().decode()


def without_progress(output: str) -> list[str]:
    """The lines of the error stream but for those that say that work goes on: a loaded machine has some."""
    return [line for line in output.splitlines() if not line.endswith(" s so far")]


def slotscope(*arguments: object) -> int:
    """Run ``slotscope ARGUMENTS`` and return its exit code."""
    return cli.run(main.program(), [str(argument) for argument in arguments])
