"""The program as a user calls it, within the test's own process."""

from __future__ import annotations

from jobs import main
from jobs.runtime import cli


def slotscope(*arguments: object) -> int:
    """Run ``slotscope ARGUMENTS`` and return its exit code."""
    return cli.run(cli.application(main.ABOUT, main.COMMANDS), [str(argument) for argument in arguments])
