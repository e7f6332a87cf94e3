"""A placement file as values, with the line that each of them stands on.  TOML and JSON parsers tell no lines; this does.

A path is a tuple of keys and list positions: ``("nodes", 1, "weight")``.  What stands inside a TOML value (an inline table, a list)
has the line on which the value begins.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster_core.errors import PlanError

TEXT_CHARS_MAX = 16 << 20
DEPTH_MAX = 32

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
_WORD = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = re.compile(r"[0-9_]{4000,}")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class Located:
    """The *values* of a file, and the *lines* of its paths; *source* names it."""

    source: str
    values: dict[str, Any]
    lines: Mapping[Path, int]

    def fault(self, path: Path, reason: str) -> PlanError:
        """Return the error that names the line of *path*, or of the nearest thing around it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return PlanError(f"{self.source}: line {self.lines.get(path, 1)}: {reason}")


def read_located(text: str, source: str) -> Located:
    """Read JSON (a text that begins with a brace) or TOML; PlanError with source and line for what is neither."""
    if len(text) > TEXT_CHARS_MAX:
        raise PlanError(f"{source}: {len(text)} characters are too many for a placement")
    return _read_json(text, source) if text.lstrip().startswith("{") else _read_toml(text, source)


def _read_json(text: str, source: str) -> Located:
    try:
        lines = _json_lines(text)
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"{source}: line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise PlanError(f"{source}: line 1: nested too deeply") from error
    except ValueError as error:
        raise _too_long(text, source) from error
    return Located(source, values, lines)


def _too_long(text: str, source: str) -> PlanError:
    """Return the error for a number of more digits than Python turns into one (`sys.set_int_max_str_digits`)."""
    number = _LONG_NUMBER.search(text)
    line = text.count("\n", 0, number.start()) + 1 if number else 1
    return PlanError(f"{source}: line {line}: a number of too many digits")


def _json_lines(text: str) -> dict[Path, int]:
    """Lines of all members and list items; sense is checked by the parser proper."""
    lines: dict[Path, int] = {}
    stack: list[str | int | None] = []
    line, at, last = 1, 0, ""
    for token in _TOKEN.finditer(text):
        line += text.count("\n", at, token.start())
        at, word = token.start(), token[0]
        here = stack[-1] if stack else None
        if isinstance(here, int) and last in "[,":
            lines.setdefault(tuple(key for key in stack if key is not None), line)
        if word in "{[":
            stack.append(0 if word == "[" else None)
            if len(stack) > DEPTH_MAX:
                raise json.JSONDecodeError("nested too deeply", text, at)
        elif word in "}]" and stack:
            stack.pop()
        elif word == "," and isinstance(here, int):
            stack[-1] = here + 1
        elif word[0] == '"' and stack and not isinstance(here, int) and last in ("{", ","):
            stack[-1] = json.loads(word)
            lines[tuple(key for key in stack if key is not None)] = line
        last = word if len(word) == 1 else "x"
    return lines


def _read_toml(text: str, source: str) -> Located:
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        if line is None:
            number = text.count("\n") + 1 if "end of document" in str(error) else 1
            raise PlanError(f"{source}: line {number}: {str(error) or 'nested too deeply'}") from error
        reason = re.sub(r"\s*\(at line.*", "", str(error))
        raise PlanError(f"{source}: line {line[1]}: {reason}") from error
    except ValueError as error:
        raise _too_long(text, source) from error
    return Located(source, values, _toml_lines(text))


def _toml_lines(text: str) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            name = _numbered(_words(header[2]), counts)
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
                table = (*name, counts[name])
            else:
                table = name
            lines.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key:
            lines.setdefault((*table, *_words(key[1])), number)
    return lines


def _numbered(name: Path, counts: Mapping[Path, int]) -> Path:
    """*name* with the position of the newest table of each list on its way, its own end left as it is."""
    path: Path = ()
    for word in name[:-1]:
        path = (*path, word)
        if path in counts:
            path = (*path, counts[path])
    return (*path, name[-1]) if name else ()


def _words(text: str) -> Path:
    return tuple(word.strip("\"'") for word in _WORD.findall(text))
