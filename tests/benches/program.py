"""The program as a user calls it, within the test's own process."""

from __future__ import annotations

from jobs import main
from slotscope.runtime import cli


def without_progress(output: str) -> list[str]:
    """The lines of *told* on the error stream but for those that say that work goes on: a loaded machine has some."""
    return [line for line in output.splitlines() if not line.endswith(" s so far")]


def slotscope(*arguments: object) -> int:
    """Run ``slotscope ARGUMENTS`` and return its exit code."""
    return cli.run(main.program(), [str(argument) for argument in arguments])
