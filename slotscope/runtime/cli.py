"""The command line of every job: options that all share, exit codes, errors in one line.

spark-submit runs a module ``jobs/<command>.py``::

    def command(request: Request) -> int | None:
        '''Show where the load is.'''
        report = run(request.session("key-slots"), request)
        ...
        return PARTIAL if report.bad_records else None

    if __name__ == "__main__":
        cli.main(command)

``jobs/main.py`` names ``command`` as a subcommand of ``slotscope``; both ways take the same options: those of the dataclass ``Request`` of
the module.  The docstring of ``command`` is its help.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from contextvars import ContextVar
from functools import cached_property
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from cyclopts import App, CycloptsError, Group, Parameter, UnknownCommandError

from slotscope.runtime import progress, stores
from slotscope.runtime.compiled_code import compiled_since
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

if TYPE_CHECKING:
    from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel
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
"""Allocations between garbage collections."""
_LEAKS_COUNTED = ("_duckdb",)
"""Modules that warn at exit about uncollected objects."""
FORMER_NAMES = frozenset({"--captures", "--logs", "--nodes"})
"""Names that options had once: they are still taken, and no help shows them."""


COMMON = "Common options"
HELP_ALL = "--help-all"
_SHOWS_ALL: ContextVar[bool] = ContextVar("_SHOWS_ALL", default=False)
"""Whether help shows every option, or every command."""


FORMER_COMMANDS = {
    "audit-plan": "plan audit",
    "bus-replay": "history",
    "check-plan": "plan check",
    "execute-plan": "plan execute",
    "forget": "tables forget",
    "incident": "incidents",
    "maintain": "tables maintain",
    "migrate": "tables migrate",
    "rebalance-plan": "plan make",
    "sentinel-replay": "lab sentinel-replay",
    "snapshots": "tables snapshots",
}
"""Former names of commands and their present ones; they still work, and a terminal shows the present one."""


class Command(NamedTuple):
    """A subcommand: its heading in help, ``"module:function"``, an imperative phrase, an example, the options that help shows."""

    group: str
    target: str
    line: str
    example: str = ""
    options: tuple[str, ...] = ()


class HelpFormatter:
    """Draws help without the former names of options; the drawing library is imported only for help.

    *shown* are the options that ``--help`` describes, by name without dashes; required ones and arguments are always described.  The
    others are only named, unless ``--help-all`` is given.
    """

    def __init__(self, shown: Sequence[str] = ()) -> None:
        """Describe the options *shown*, or all of them where it is empty."""
        self._shown = {f"--{name}": place for place, name in enumerate(shown)}

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Draw *panel*."""
        entries = [
            entry.copy(positive_names=tuple(name for name in entry.positive_names if name not in FORMER_NAMES))
            for entry in panel.entries
        ]
        named: list[HelpEntry] = []
        title = str(panel.title)
        if not _SHOWS_ALL.get() and self._shown and panel.format == "parameter":
            named = [entry for entry in entries if not self._is_shown(entry)]
            entries = sorted(filter(self._is_shown, entries), key=self._place)
        self._drawing(console, options, panel.copy(entries=entries))
        if named:
            names = ", ".join(next(iter(entry.positive_names), "") for entry in named)
            heading = COMMON if title == COMMON else "More options"
            console.print(f"{heading} ({HELP_ALL}): {names}", highlight=False)

    def _is_shown(self, entry: HelpEntry) -> bool:
        return entry.required or entry.positional_label is not None or self._place(entry) < len(self._shown)

    def _place(self, entry: HelpEntry) -> int:
        """Return the place of an option among those shown; arguments come first."""
        if entry.positional_label is not None:
            return -1
        return min((self._shown.get(name, len(self._shown)) for name in entry.positive_names), default=len(self._shown))

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to `DefaultFormatter`."""
        return getattr(self._drawing, name)

    @cached_property
    def _drawing(self) -> DefaultFormatter:
        from cyclopts.help import DefaultFormatter

        return DefaultFormatter()


HOUSE_STYLE: dict[str, Any] = {
    "help_formatter": HelpFormatter(),
    "help_flags": ("--help", "-h", HELP_ALL),
    "default_parameter": Parameter(negative_iterable=(), negative_none=()),
    "suppress_keyboard_interrupt": False,
}


def application(about: str, commands: Mapping[str, Command], families: Mapping[str, str] = MappingProxyType({})) -> App:
    """A program of subcommands; a module is imported when its command runs.

    A name of two words is a command of a family, and *families* has the line of each family.
    """
    headings = list(dict.fromkeys(command.group for command in commands.values()))
    groups = {heading: Group(heading, sort_key=at) for at, heading in enumerate(headings)}
    rest = Group("Help", sort_key=len(groups))
    app = App(name=NAME, help=about, version=_version, group_commands=rest, **HOUSE_STYLE)
    commands_of_family = Group("Commands")
    parents = {"": app}
    for at, (name, command) in enumerate(commands.items()):
        family, _, own_name = name.rpartition(" ")
        if family not in parents:
            parents[family] = App(
                name=family,
                help=families[family],
                group=groups[command.group],
                sort_key=at,
                **HOUSE_STYLE,
            )
            app.command(parents[family])
        example = f"\n\nExample: `{command.example}`" if command.example else ""
        style = {"help": f"{command.line}{example}", "help_formatter": HelpFormatter(command.options)}
        heading = commands_of_family if family else groups[command.group]
        parents[family].command(command.target, name=own_name, group=heading, sort_key=at, **style)

    def print_help(*command: str) -> None:
        tokens = _present_name(command)
        if tokens and tokens[0] not in (*app, "help"):
            raise UnknownCommandError(unused_tokens=tokens, app=app)
        from rich.console import Console

        app.help_print(tokens, console=Console())

    def print_completion(shell: Literal["bash", "zsh", "fish"] | None = None) -> None:
        sys.stdout.write(app.generate_completion(shell=shell))

    app.command(
        print_help,
        name="help",
        usage="",
        help="Show the options of a command",
    )
    app.command(
        print_completion,
        name="--completion",
        usage="",
        help="Print the completion script for bash, zsh or fish",
    )
    return app


def run(program: App | Callable[..., int | None], argv: Sequence[str] | None = None) -> int:
    """Run *program* (an `application`, or the ``command`` of one job) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    flags = {
        word for word in takewhile(lambda word: word != "--", arguments) if word in ("--debug", "--quiet", HELP_ALL)
    }
    debug = "--debug" in flags
    _SHOWS_ALL.set(HELP_ALL in flags)
    progress.explain(compiled_since)
    try:
        with ExitStack() as muted:
            if "--quiet" in flags:
                muted.enter_context(redirect_stdout(muted.enter_context(open(os.devnull, "w", encoding="utf-8"))))
                muted.enter_context(progress.silence())
            app, tokens = _app(program), _present_name(arguments)
            outcome = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("slotscope: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the flush at exit does not complain again
        return READER_GONE
    except Exception as error:  # every error becomes a line and an exit code
        if debug:
            traceback.print_exc()
        failure = describe(error)
        sys.stderr.write(complaint(stores.hide(failure.line)) + "\n")
        return failure.code
    return outcome if isinstance(outcome, int) else OK


def read_options(kind: Callable[[], Asked], tokens: Sequence[str]) -> Asked:
    """Parse *tokens* as a command line of the dataclass *kind*; raises InputError."""
    nothing = kind()

    def command(request: Any = nothing) -> None:
        """Only asked."""

    command.__annotations__["request"] = kind
    try:
        _, bound, _ = _app(command).parse_args(list(tokens), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise InputError(describe(error).line.removesuffix(SEE_HELP)) from error
    return cast("Asked", bound.arguments.get("request", nothing))


def main(program: App | Callable[..., int | None], argv: Sequence[str] | None = None) -> None:
    """`run`, then leave Python with the exit code.

    Objects of the start are frozen for the garbage collector, and numpy starts no threads: there are no products of matrices.
    """
    gc.set_threshold(_NEW_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(program, argv)
    if not any(name in sys.modules for name in _LEAKS_COUNTED):
        gc.freeze()
    sys.exit(code)


def _present_name(tokens: Sequence[str]) -> list[str]:
    """Return *tokens* with the present name of their command; a terminal shows it, a log keeps its lines."""
    present = FORMER_COMMANDS.get(tokens[0]) if tokens else None
    if present is None:
        return list(tokens)
    if sys.stderr.isatty():
        sys.stderr.write(complaint(f"{tokens[0]} is now {present}") + "\n")
    return [*present.split(), *tokens[1:]]


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
