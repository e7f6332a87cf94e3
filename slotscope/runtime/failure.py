"""From an exception to an exit code and one line for the user.

An error that was raised on an executor arrives as text only, inside the trace that Spark wraps around it; the
last line of a Python trace names the class and its message; that line is searched here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from cyclopts import CycloptsError, UnknownCommandError, UnusedCliTokensError

from cluster_core.errors import ClusterCoreError
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.program import NAME

OK = 0
UNEXPECTED = 1
BAD_INPUT = 2
PARTIAL = 3
NEW_PLAN = 10
PROMISE_BROKEN = 11
PAUSED = 12
IMPOSSIBLE = 13
TRY_AGAIN = 75
INTERRUPTED = 130
READER_GONE = 141
"""Exit codes; 75 is EX_TEMPFAIL of sysexits, the last two are 128 and the signal, as a shell reports them."""

LINE_CHARS_MAX = 1000
"""A message longer than this is cut: a hostile file name must not fill the screen."""

SEE_HELP = " (see --help)"
OF_SPARK = frozenset(["pyspark", "py4j", "delta", "pandas"])
NEEDS_SPARK = 'this needs Spark: install the extra "spark": pip install ".[spark]" in the clone'
"""Error where one of these packages is missing; they are imported only by commands that need Spark."""

_OURS = re.compile(
    r"^\s*(?:\S*: )?(?:cluster_core\.errors\.\w+|slotscope\.runtime\.errors\.(?:InputError|PlaceError)): (?P<message>.*)$",
    re.MULTILINE,
)
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
"""The end of a Python trace in the text of an error of Spark."""
_REFUSED_KINDS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_REFUSED = re.compile(
    rf"^\s*(?:{'|'.join(kind.__name__ for kind in _REFUSED_KINDS)}): \[Errno \d+\] (?P<why>[^:\n]*): "
    r"(?P<quote>['\"])(?P<file>.*)(?P=quote)",
    re.MULTILINE,
)


_NOT_ALLOWED_IN = re.compile(r"NOAUTH|WRONGPASS|invalid username-password|AUTH <password> called without")
CHECK_PASSWORD = "; the password comes from SLOTSCOPE_PASSWORD (--password-env), the user from --user"
"""Hint where a server refuses the login."""

_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")
"""Errors of the system for a full or read-only disk."""


_TAKEN = "Multiple streaming"
"""Part of Spark's error where another stream writes the same checkpoint; only follow has one."""
TAKEN_LINE = "checkpoints/follow of this root: another follow is running in it, or was killed a moment ago; run this again after it has ended"


class Failure(NamedTuple):
    """How a job ends: *code* for the shell, *line* for the person."""

    code: int
    line: str


def code_of_all(failures: Sequence[Failure | None], *, is_partial: bool) -> int:
    """The exit code of a job over several clusters: `PARTIAL` where some failed or are partial, that of all where all failed."""
    codes = {failure.code for failure in failures if failure is not None}
    if failures and None not in failures:
        return codes.pop() if len(codes) == 1 else UNEXPECTED
    return PARTIAL if codes or is_partial else OK


def describe(error: BaseException) -> Failure:
    """Reduce *error* to a `Failure`; bad input wherever it was noticed is 2, everything else is 1 and asks
    for ``--debug``.
    """
    if isinstance(error, CycloptsError):
        return Failure(BAD_INPUT, printable(_usage(error)))
    if isinstance(error, ClusterCoreError | InputError):
        line = str(error)
        return Failure(
            BAD_INPUT, printable(line.rstrip(".") + CHECK_PASSWORD if _NOT_ALLOWED_IN.search(line) else line)
        )
    if isinstance(error, _REFUSED_KINDS) and error.filename is not None:
        return Failure(BAD_INPUT, printable(f"{error.filename}: {error.strerror}"))
    if isinstance(error, TryAgainError):
        return Failure(TRY_AGAIN, printable(str(error)))
    if _is_sparks(error) and _TAKEN in str(error):
        return Failure(TRY_AGAIN, TAKEN_LINE)
    travelled = _travelled(str(error)) if _is_sparks(error) else None
    if travelled is not None:
        return Failure(BAD_INPUT, printable(travelled))
    refused = no_room(error)
    if refused is not None:
        return Failure(UNEXPECTED, f"{refused[0]}: tables are as they were before; make room and run this again")
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OF_SPARK:
        return Failure(BAD_INPUT, NEEDS_SPARK)
    raised = _RAISED.findall(str(error)) if _is_sparks(error) else []
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    line = raised[-1] if raised else f"{type(error).__name__}: {first}"
    return Failure(UNEXPECTED, printable(line[:LINE_CHARS_MAX]) + "; run again with --debug")


def no_room(error: BaseException) -> re.Match[str] | None:
    """The reason where a disk is full, also where Spark wrote to it."""
    return _NO_ROOM.search(str(error)) if isinstance(error, OSError) or _is_sparks(error) else None


def complaint(line: str) -> str:
    """*line* behind the name of the program."""
    return f"{NAME}: {line}"


def printable(text: str) -> str:
    """*text* as one line that a terminal shows and does not obey: control characters are escaped, the end is
    cut.
    """
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return shown if len(shown) <= LINE_CHARS_MAX else shown[:LINE_CHARS_MAX] + "…"


_PYTHON_TYPE = re.compile(r'unable to convert (".*") into .*')


def _usage(error: CycloptsError) -> str:
    """Return the error in the command line, with a reference to the help."""
    if isinstance(error, UnknownCommandError):  # its own text would import every job to list them
        return no_such_command((error.unused_tokens or ["?"])[0], list(error.app or ()))
    if isinstance(error, UnusedCliTokensError):
        return f"unexpected argument: {' '.join(error.unused_tokens or [])}{SEE_HELP}"
    message = " ".join(str(error).split()).rstrip(".")
    return _PYTHON_TYPE.sub(r"\1", message) + SEE_HELP


def no_such_command(word: str, commands: Iterable[str]) -> str:
    """Return the error for the unknown command *word*, with the most similar one."""
    if word.startswith("-"):
        return f"{word}: write options after the command{SEE_HELP}"
    near = get_close_matches(word.lower().replace("_", "-"), list(commands), n=1)
    return f"no such command: {word}{f'; did you mean {near[0]}?' if near else ''}{SEE_HELP}"


def _is_sparks(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def _travelled(text: str) -> str | None:
    ours = _OURS.search(text)
    if ours is not None:
        return ours["message"].strip()
    refused = _REFUSED.search(text)
    return f"{refused['file']}: {refused['why']}" if refused is not None else None
