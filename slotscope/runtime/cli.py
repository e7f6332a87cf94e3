"""The command line of every job: options that all share, exit codes, errors in one line.

A module ``jobs/<command>.py`` is what spark-submit runs::

    def command(request: Request) -> int | None:
        '''Show where the load is.'''
        report = run(request.session("key-slots"), request)
        ...
        return PARTIAL if report.bad_records else None

    if __name__ == "__main__":
        cli.main(command)

``jobs/main.py`` names ``command`` as a subcommand of ``slotscope``; both ways take the same options: those of the dataclass ``Request``
in ``slotscope/requests/<command>.py``.  The docstring of ``command`` is its help.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from cyclopts import App, Parameter

from slotscope.runtime.failure import IMPOSSIBLE, INTERRUPTED, NEW_PLAN, OK, PARTIAL, READER_GONE, UNEXPECTED, describe

__all__ = [
    "IMPOSSIBLE",
    "NEW_PLAN",
    "OK",
    "PARTIAL",
    "UNEXPECTED",
    "application",
    "main",
    "run",
]

HOUSE_STYLE: dict[str, Any] = {
    "default_parameter": Parameter(negative_iterable=(), negative_none=()),
    "suppress_keyboard_interrupt": False,
}


def application(about: str, commands: dict[str, tuple[str, str]]) -> App:
    """A program of subcommands: name to ``"module:function"`` and one line of help.  A module is imported
    when its command runs.
    """
    app = App(name="slotscope", help=about, version=_version, **HOUSE_STYLE)
    for name, (target, line) in commands.items():
        app.command(target, name=name, help=line)
    return app


def run(program: App | Callable[..., int | None], argv: Sequence[str] | None = None) -> int:
    """Run *program* (an `application`, or the ``command`` of one job) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        outcome = _app(program)(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("slotscope: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the flush at exit does not complain again
        return READER_GONE
    except Exception as error:  # the one place: whatever it is becomes a line and an exit code
        if debug:
            traceback.print_exc()
        failure = describe(error)
        sys.stderr.write(f"slotscope: {failure.line}\n")
        return failure.code
    return outcome if isinstance(outcome, int) else OK


def main(program: App | Callable[..., int | None], argv: Sequence[str] | None = None) -> None:
    """`run`, then leave Python with the exit code."""
    sys.exit(run(program, argv))


def _app(program: App | Callable[..., int | None]) -> App:
    if isinstance(program, App):
        return program
    app = App(version=_version, **HOUSE_STYLE)
    app.default(program)
    return app


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("slotscope")
    except PackageNotFoundError:  # the code came in a zip
        return "unknown (not installed)"
