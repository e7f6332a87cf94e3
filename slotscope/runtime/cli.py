"""The command line of every job: options that all share, exit codes, errors in one line.

A job module ``jobs/<question>.py`` holds `run` for tests and notebooks, `command` with the options, `main`
for spark-submit::

    def run(spark: SparkSession, *, root: str, rdb: Sequence[str], ...) -> Outcome: ...

    def command(*, rdb: Paths = (), snapshot: str = "...", common: Common) -> int | None:
        spark = common.session("key-slots")
        run(spark, root=common.root, rdb=rdb, ...)
        return PARTIAL if ... else None

    def main(argv: Sequence[str] | None = None) -> None:
        cli.main(command, argv)

    if __name__ == "__main__":
        main()

``jobs/main.py`` names ``command`` as a subcommand of ``slotscope``; both ways take the same options.  The
docstring of ``command`` is its help: first line, text, and the options under ``Parameters``.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from slotscope.runtime.failure import IMPOSSIBLE, INTERRUPTED, NEW_PLAN, OK, PARTIAL, READER_GONE, UNEXPECTED, describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.runtime.settings import Settings

__all__ = [
    "IMPOSSIBLE",
    "NEW_PLAN",
    "OK",
    "PARTIAL",
    "UNEXPECTED",
    "Common",
    "Flag",
    "Paths",
    "application",
    "main",
    "run",
]

Mode = Literal["strict", "permissive"]
Paths = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=False)]
"""Several values after one flag, or the flag several times, or both."""

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""A switch that is off until it is given; a plain ``bool`` or ``bool | None`` has a ``--no-`` form
beside it.
"""

HOUSE_STYLE: dict[str, Any] = {
    "default_parameter": Parameter(negative_iterable=(), negative_none=()),
    "suppress_keyboard_interrupt": False,
}
COMMON = Group("Common options", sort_key=99)


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """Options of every job."""

    root: str
    """Folder of the tables: they are written to ROOT/{bronze,silver,gold}."""
    mode: Mode = "strict"
    """What to do with bad input: stop at the first (strict), or write it to bronze/bad_records and go on
    (permissive).
    """
    master: str | None = None
    """Where Spark runs: local[2], spark://HOST:PORT, yarn …; default: what spark-submit says, else this
    machine.
    """
    conf_file: str | None = None
    """File of settings that replace those of conf/slotscope.toml."""
    debug: Flag = False
    """Show the trace of an error, and Spark's own messages."""

    def session(self, app: str) -> SparkSession:
        """Start the Spark session that the options ask for."""
        from slotscope.runtime.session import spark_session

        return spark_session(app, master=self.master, verbose=self.debug)

    def settings(self, **given: Any) -> Settings:
        """Read the settings; *given* are values from the command line, None where the user gave none."""
        from slotscope.runtime.settings import read_settings

        return read_settings(self.conf_file, **given)


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
