"""``appendonly.aof.manifest``: the files of a multi-part append-only log, in order (`aofLoadManifestFromFile`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import unquote

MANIFEST_BYTES_MAX = 1 << 20
LINE_BYTES_MAX = 1022
"""Maximum bytes of a line; the server's buffer has 1024 with the line end."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\s"]+')
_NUMBER = re.compile(rb"\d{1,18}")


class AofPart(NamedTuple):
    """One file of the log: name and sequence number."""

    name: str
    seq: int


class Manifest(NamedTuple):
    """The files of a log: base (None before the first rewrite), increments, and files to delete."""

    base: AofPart | None
    increments: tuple[AofPart, ...]
    history: tuple[AofPart, ...]

    def parts(self) -> tuple[AofPart, ...]:
        """Return the files in load order."""
        return (*((self.base,) if self.base else ()), *self.increments)


def read_manifest(data: bytes, *, source: str = "<manifest>") -> Manifest:
    """Decode a manifest; DecodeError with the offset of the faulty line."""
    if len(data) > MANIFEST_BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes are too many for a manifest", offset=0, source=source)
    base: AofPart | None = None
    increments: list[AofPart] = []
    history: list[AofPart] = []
    offset = 0
    for line in data.splitlines(keepends=True):
        kind, part = _read_line(line, offset, source)
        if kind == "b":
            if base is not None:
                raise DecodeError("a second base file", offset=offset, source=source)
            base = part
        elif kind == "i" and part is not None:
            if increments and part.seq <= increments[-1].seq:
                reason = f"increment {part.seq} after {increments[-1].seq}: sequence numbers must rise"
                raise DecodeError(reason, offset=offset, source=source)
            increments.append(part)
        elif kind == "h" and part is not None:
            history.append(part)
        offset += len(line)
    if base is None and not increments and not history:
        raise DecodeError("the manifest names no file", offset=0, source=source)
    _refuse_twins([*((base,) if base else ()), *increments], source)
    return Manifest(base, tuple(increments), tuple(history))


def _refuse_twins(parts: list[AofPart], source: str) -> None:
    names = [part.name for part in parts]
    twin = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twin is not None:
        raise DecodeError(f"the file {twin!r} is named twice", offset=0, source=source)


def _read_line(line: bytes, offset: int, source: str) -> tuple[str, AofPart | None]:
    """Return type and file of one line; "" for a comment."""

    def fail(reason: str) -> DecodeError:
        return DecodeError(reason, offset=offset, source=source)

    if line.startswith(b"#"):
        return "", None
    if len(line) > LINE_BYTES_MAX:
        raise fail(f"a line of {len(line)} bytes")
    text = line.strip(b" \t\r\n")
    tokens = _TOKEN.findall(text)
    if not tokens or len(tokens) < 6 or len(tokens) % 2:
        raise fail("a line is not made of pairs: file NAME seq NUMBER type b|h|i")
    fields = {key.lower(): value for key, value in zip(tokens[::2], tokens[1::2], strict=True)}
    try:
        name, number, kind = fields[b"file"], fields[b"seq"], fields[b"type"]
    except KeyError as error:
        raise fail(f"a line without {error.args[0].decode()}") from None
    if name.startswith(b'"'):
        name = unquote(name, source=source, offset=offset)
    if not is_plain_name(name):
        raise fail("a file is a name beside the manifest, not a path")
    if not _NUMBER.fullmatch(number) or int(number) == 0:
        raise fail(f"sequence number {number.decode('latin-1')!r}")
    if kind not in (b"b", b"h", b"i"):
        raise fail(f"type {kind.decode('latin-1')!r}: b, h or i")
    return kind.decode(), AofPart(name.decode("utf-8", "surrogateescape"), int(number))


def is_plain_name(name: bytes) -> bool:
    """Return whether *name* is a plain file name (`pathIsBaseName`)."""
    return bool(name) and name not in (b".", b"..") and not any(byte in name for byte in b"/\\\0")
