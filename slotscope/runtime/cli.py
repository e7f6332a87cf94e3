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

import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast, get_type_hints

from cyclopts import App, CycloptsError, Group, Parameter, UnknownCommandError

from slotscope.runtime import progress
from slotscope.runtime.compiled_code import compiled_since, take_packed
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import (
    IMPOSSIBLE,
    INTERRUPTED,
    NEW_PLAN,
    OK,
    PARTIAL,
    READER_GONE,
    SEE_HELP,
    UNEXPECTED,
    complaint,
    describe,
)  # fmt: skip
from slotscope.runtime.program import FORMER_ROOT, ROOT, ROOT_VARIABLE, default_root
from slotscope.runtime.storage import stores

if TYPE_CHECKING:
    from cyclopts.help import DefaultFormatter, HelpPanel
    from rich.console import Console, ConsoleOptions

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

Asked = TypeVar("Asked")
NAME = "slotscope"
_NEW_OBJECTS = 100_000
"""After so many Python looks for those that nothing holds."""
_LEAKS_COUNTED = ("_duckdb",)
"""Modules that complain at exit of their objects that nobody has collected."""
FORMER_NAMES = frozenset({"--captures", "--logs", "--nodes"})
"""Names that options had once: they are still taken, and no help shows them."""


class Command(NamedTuple):
    """A subcommand: the heading of help it stands under, ``"module:function"``, one line of help, and its former names."""

    group: str
    target: str
    line: str
    former: tuple[str, ...] = ()


class HelpFormatter:
    """Draws help without the former names of options; what draws is imported when somebody asks for help."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Draw *panel*."""
        entries = [
            entry.copy(positive_names=tuple(name for name in entry.positive_names if name not in FORMER_NAMES))
            for entry in panel.entries
        ]
        self._drawing(console, options, panel.copy(entries=entries))

    def __getattr__(self, name: str) -> Any:
        """Everything else as `DefaultFormatter` has it."""
        return getattr(self._drawing, name)

    @cached_property
    def _drawing(self) -> DefaultFormatter:
        from cyclopts.help import DefaultFormatter

        return DefaultFormatter()


HOUSE_STYLE: dict[str, Any] = {
    "help_formatter": HelpFormatter(),
    "default_parameter": Parameter(negative_iterable=(), negative_none=()),
    "suppress_keyboard_interrupt": False,
}


def application(about: str, commands: Mapping[str, Command]) -> App:
    """A program of subcommands; a module is imported when its command runs."""
    headings = list(dict.fromkeys(command.group for command in commands.values()))
    groups = {heading: Group(heading, sort_key=at) for at, heading in enumerate(headings)}
    rest = Group("Help", sort_key=len(groups))
    app = App(name=NAME, help=about, version=_version, group_commands=rest, **HOUSE_STYLE)
    for at, (name, command) in enumerate(commands.items()):
        app.command(command.target, name=name, help=command.line, group=groups[command.group], sort_key=at)
        for former in command.former:
            app.command(command.target, name=former, help=command.line, show=False)
    former_names = {former for command in commands.values() for former in command.former}

    def print_help(*command: str) -> None:
        if command and command[0] not in (*commands, *former_names, "help"):
            raise UnknownCommandError(unused_tokens=list(command), app=app)
        from rich.console import Console

        app.help_print(list(command), console=Console())

    def print_completion(shell: Literal["bash", "zsh", "fish"] | None = None) -> None:
        sys.stdout.write(app.generate_completion(shell=shell))

    app.command(
        print_help,
        name="help",
        usage="",
        help="Show what a command takes: slotscope help COMMAND.",
    )
    app.command(
        print_completion,
        name="--completion",
        usage="",
        help="Print what completes commands and options in bash, zsh or fish. Default: the shell that asks.",
    )
    return app


def run(program: App | Callable[..., int | None], argv: Sequence[str] | None = None) -> int:
    """Run *program* (an `application`, or the ``command`` of one job) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    flags = {word for word in takewhile(lambda word: word != "--", arguments) if word in ("--debug", "--quiet")}
    debug = "--debug" in flags
    take_packed()
    progress.explain(compiled_since)
    try:
        with ExitStack() as muted:
            if "--quiet" in flags:
                muted.enter_context(redirect_stdout(muted.enter_context(open(os.devnull, "w", encoding="utf-8"))))
                muted.enter_context(progress.silence())
            app, words = _app(program), arguments
            _name_former_root(app, words)
            outcome = app(words, exit_on_error=False, print_error=False, result_action="return_value")
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
        sys.stderr.write(complaint(stores.hide(failure.line)) + "\n")
        return failure.code
    return outcome if isinstance(outcome, int) else OK


def read_options(kind: Callable[[], Asked], words: Sequence[str]) -> Asked:
    """What the options *words* say, as a command line of the dataclass *kind* would; raises InputError."""
    nothing = kind()

    def command(request: Any = nothing) -> None:
        """Only asked."""

    command.__annotations__["request"] = kind
    try:
        _, bound, _ = _app(command).parse_args(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise InputError(describe(error).line.removesuffix(SEE_HELP)) from error
    return cast("Asked", bound.arguments.get("request", nothing))


def main(program: App | Callable[..., int | None], argv: Sequence[str] | None = None) -> None:
    """`run`, then leave Python with the exit code.

    Python is spared to look through the hundreds of thousands of objects that a start makes and keeps, and numpy to start threads for
    products of matrices, of which there are none.
    """
    gc.set_threshold(_NEW_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(program, argv)
    if not any(name in sys.modules for name in _LEAKS_COUNTED):
        gc.freeze()
    sys.exit(code)


def _name_former_root(app: App, words: Sequence[str]) -> None:
    """Name the folder of the tables where that is the default of older versions, for commands that have a root."""
    named = ROOT_VARIABLE in os.environ or any(word.partition("=")[0] == "--root" for word in words)
    if named or default_root() != FORMER_ROOT:
        return
    _, apps, _ = app.parse_commands(words)
    request = get_type_hints(apps[-1].default_command).get("request") if apps[-1].default_command else None
    if "root" in getattr(request, "__dataclass_fields__", ()):
        sys.stderr.write(
            complaint(f"using the tables in {FORMER_ROOT}, the former default: rename it to {ROOT}, or give --root")
            + "\n"
        )


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
