"""One reply of a server as plain lists, dicts, texts and numbers, whichever way it was saved.

RESP2 and RESP3 bytes, ``redis-cli --json`` and redis-cli's numbered text are told apart by their first bytes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.topology.cli_text import read_cli_text
from cluster_core.wire.resp import RespError, RespMap, RespSet, Verbatim, decode_values

_RESP = re.compile(rb"[*%$=~>+!-][^\r\n]{0,500}\r\n")
_CLI = re.compile(rb" *1[)#] |\(")


def read_reply_value(data: bytes, *, source: str = "<bytes>") -> Any:
    """Return the reply as lists, dicts, str, int, float and None; DecodeError for an error reply and for what is no reply."""
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
    """Say whether *data* from *start* looks like one of these forms."""
    return bool(_RESP.match(data, start) or data[start : start + 1] in (b"[", b"{", b'"') or _CLI.match(data, start))


def _read_json(data: bytes, source: str) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as problem:
        raise DecodeError(f"no JSON: {problem.msg}", offset=problem.pos, source=source) from None
    except (ValueError, RecursionError) as problem:
        raise DecodeError(f"no JSON: {problem}", offset=0, source=source) from None


def _plain(value: Any, source: str) -> Any:
    """Return a RESP value as lists, dicts, str, int and None; the parser has bounded how deep it is."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [_plain(item, source) for item in value]
    if isinstance(value, RespSet):
        return [_plain(item, source) for item in value.items]
    if isinstance(value, Verbatim):
        return value.data.decode("utf-8", "surrogateescape")
    if isinstance(value, RespMap):
        pairs = [(_plain(name, source), _plain(item, source)) for name, item in value.pairs]
        if not all(isinstance(name, str) for name, _ in pairs):
            raise DecodeError("a map with a name that is no text", offset=0, source=source)
        return dict(pairs)
    if isinstance(value, RespError):
        raise DecodeError(f"the reply is an error: {value.text[:200]}", offset=0, source=source)
    if value is None or isinstance(value, str | int):
        return value
    raise DecodeError(f"a {type(value).__name__} in a description of a cluster", offset=0, source=source)
