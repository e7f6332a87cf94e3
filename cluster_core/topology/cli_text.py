"""Reader and writer of replies as redis-cli prints them (``1) 1) (integer) 0``).

Item numbers are right-aligned within a list: the column of a number's end identifies its list.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.wire.resp import RespError, decode_values

NESTING_MAX = 32
"""Maximum nesting of lists; CLUSTER SHARDS has four levels."""

_MARKER = re.compile(r" *([0-9]{1,9})([)#~]) ")
_INTEGER = re.compile(r"\(integer\) (-?[0-9]{1,19})")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "\\": "\\", '"': '"'}
_EMPTY = {
    "(empty array)": list,
    "(empty list or set)": list,
    "(empty set)": list,
    "(empty hash)": dict,
    "(empty push)": list,
}


@dataclass(slots=True)
class _Level:
    """A list or dict being read; its item numbers end at *column*."""

    column: int
    value: Any
    key: str | None = None


class _Reader:
    """Line reader; *levels* are the open lists, outermost first."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.offset = 0
        self.root: Any = None
        self.levels: list[_Level] = []
        self.waiting = True  # for the value of the root, an item or a key

    def fault(self, reason: str) -> DecodeError:
        return DecodeError(reason, offset=self.offset, source=self.source)

    def line(self, text: str) -> None:
        position = 0
        while match := _MARKER.match(text, position):
            self._mark(int(match[1]), match[2], match.end(2))
            position = match.end()
            if match[2] == "#":
                position = self._key(text, position)
        content = text[position:].lstrip(" ")
        if content:
            self._put(self._scalar(content))
        elif position == 0:
            raise self.fault("a line without an item")

    def _mark(self, number: int, sign: str, column: int) -> None:
        """Select the list with numbers ending at *column*; open it if it is deeper than the last one."""
        while self.levels and self.levels[-1].column > column:
            self.levels.pop()
        if not self.levels or self.levels[-1].column < column:
            if not self.waiting:
                raise self.fault(f"item {number} is in no list")
            if len(self.levels) >= NESTING_MAX:
                raise self.fault(f"more than {NESTING_MAX} lists nested")
            value: Any = {} if sign == "#" else []
            self._put(value)
            self.levels.append(_Level(column, value))
        elif self.waiting:
            raise self.fault(f"item {number} where a value is due")
        level = self.levels[-1]
        if number != len(level.value) + 1 or isinstance(level.value, dict) != (sign == "#"):
            raise self.fault(f"item {number}{sign} after {len(level.value)} items")
        self.waiting = True

    def _key(self, text: str, position: int) -> int:
        """Read ``"name" => `` and return the position after it."""
        match = re.compile(r'("(?:[^"\\]|\\.)*") => ?').match(text, position)
        if not match:
            raise self.fault("a name without a value")
        name = self._scalar(match[1])
        if name in self.levels[-1].value:
            raise self.fault(f"the name {name[:40]!r} appears twice")
        self.levels[-1].key = name
        return match.end()

    def _put(self, value: Any) -> None:
        if not self.waiting:
            raise self.fault("a value where an item is due")
        self.waiting = False
        if not self.levels:
            self.root = value
        elif isinstance(self.levels[-1].value, dict):
            self.levels[-1].value[self.levels[-1].key] = value
        else:
            self.levels[-1].value.append(value)

    def _scalar(self, content: str) -> Any:
        if content in _EMPTY:
            return _EMPTY[content]()
        if content == "(nil)":
            return None
        if match := _INTEGER.fullmatch(content):
            return int(match[1])
        if len(content) >= 2 and content[0] == content[-1] == '"':
            return _ESCAPE.sub(self._unescape, content[1:-1])
        if content.startswith("(error) "):
            raise self.fault(f"the reply is an error: {content[8:200]}")
        raise self.fault(f"{content[:60]!r} is not a value")

    def _unescape(self, match: re.Match[str]) -> str:
        if match[1]:
            return bytes([int(match[1], 16)]).decode("utf-8", "surrogateescape")
        return _ESCAPES.get(match[2], match[2])


def read_cli_text(data: bytes, *, source: str = "<bytes>") -> Any:
    """Parse redis-cli's text into lists, dicts, str, int and None; DecodeError or TruncatedError with an offset."""
    reader = _Reader(source)
    for line in data.split(b"\n"):
        text = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
        if text.strip():
            reader.line(text)
        reader.offset += len(line) + 1
    if reader.waiting:
        raise TruncatedError("the text ends before its last item", offset=len(data), source=source)
    return reader.root


_RESP = re.compile(rb"[*%$=~>+!-][^\r\n]{0,500}\r\n")
_CLI = re.compile(rb" *1[)#] |\(")


def read_reply_value(data: bytes, *, source: str = "<bytes>") -> Any:
    """Return the reply as lists, dicts, str, int, float and None; DecodeError for an error reply or other input."""
    start = len(data) - len(data.lstrip())
    if _RESP.match(data, start):
        values = decode_values(data[start:], source=source)
        if len(values) != 1:
            raise DecodeError(f"{len(values)} replies, not one", offset=start, source=source)
        return _plain(values[0], source)
    if data[start : start + 1] in (b"[", b"{", b'"'):
        return _read_json(data, source)
    if _CLI.match(data, start):
        return read_cli_text(data, source=source)
    raise DecodeError("no reply that is understood: use --json", offset=start, source=source)


def is_reply(data: bytes, start: int) -> bool:
    """Return whether *data* from *start* looks like one of these forms."""
    return bool(_RESP.match(data, start) or data[start : start + 1] in (b"[", b"{", b'"') or _CLI.match(data, start))


def _read_json(data: bytes, source: str) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as problem:
        raise DecodeError(f"no JSON: {problem.msg}", offset=problem.pos, source=source) from None
    except (ValueError, RecursionError) as problem:
        raise DecodeError(f"no JSON: {problem}", offset=0, source=source) from None


def _plain(value: Any, source: str) -> Any:
    """Return a RESP value as lists, dicts, str, int and None; the parser bounds its depth."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [_plain(item, source) for item in value]
    if isinstance(value, dict):
        return {str(_plain(name, source)): _plain(item, source) for name, item in value.items()}
    if isinstance(value, RespError):
        raise DecodeError(f"the reply is an error: {value.text[:200]}", offset=0, source=source)
    if value is None or isinstance(value, str | int):
        return value
    raise DecodeError(f"a {type(value).__name__} in a description of a cluster", offset=0, source=source)
