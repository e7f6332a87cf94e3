"""Recognition of files by their first bytes, compressed or not; never by name alone.

`SIGNS` lists each kind with the test of its beginning, in the order of trial.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.aof.manifest import read_manifest
from cluster_core.formats.poll_lines import INFO_NAMES, TEXT_NAMES, TIME_NAMES
from cluster_core.formats.slot_stats import read_monitor_line
from slotscope.sources.files import InputFile, compression_of, expand, is_uri, open_stream, walk_files

if TYPE_CHECKING:
    from cluster_core.formats.server_log import LogRow

HEAD_BYTES: Final = 1 << 20
"""Bytes that are read of each file; a line of a poll of a thousand nodes takes a fifth of them."""
SEARCHED_BYTES: Final = 8 << 20
"""Bytes of a capture that are searched for bus traffic."""
TOPOLOGY_BYTES_MAX: Final = 64 << 20
FILES_MAX: Final = 10_000
LINES_LOOKED_AT: Final = 200
KEY_LINES_MIN: Final = 2
"""A shorter text, as of a process id, is no list of keys."""
KEY_LINES_SHARE: Final = 0.8
"""Least share of one-word lines in a list of keys."""
LOG_LINES_SHARE: Final = 0.1
"""A text with more lines of servers than this is a log of servers: other programs write into the same export."""
JSON_LINES_SHARE: Final = 0.2
"""Least share of lines of a kind in a file of it: polls of several commands often share a file."""
KEY_COLUMNS: Final = frozenset(("key", "key_base64"))
SHOWN_BYTES: Final = 12


class FileKind(StrEnum):
    """Kinds of files, as shown to users."""

    RDB = "RDB dump"
    AOF_MANIFEST = "manifest of an append-only log"
    AOF = "append-only log"
    BUS_CAPTURE = "capture of the cluster bus"
    OTHER_CAPTURE = "capture without cluster bus traffic in its first 8 MB"
    SERVER_LOG = "log of a server"
    SENTINEL_LOG = "log of a sentinel"
    TOPOLOGY = "topology of a cluster"
    NODE_POLLS = "polls of CLUSTER NODES (collect)"
    METRICS = "metrics of redis_exporter (answer of Prometheus)"
    INFO = "INFO replies"
    SENTINEL_POLLS = "polls of sentinels"
    MONITOR = "log of MONITOR"
    KEYS_PARQUET = "list of keys, Parquet"
    KEYS_JSONL = "list of keys, JSON lines"
    KEYS_CSV = "list of keys, CSV"
    KEYS_TEXT = "list of keys, one per line (assumed)"
    UNKNOWN = "not known"


class RecognisedFile(NamedTuple):
    """A file and its kind; *about* describes an unknown one."""

    path: str
    kind: FileKind
    about: str = ""


class FileBeginning(NamedTuple):
    """The first bytes of a file, without compression; *whole* if they are all of it."""

    path: str
    data: bytes
    whole: bool

    @property
    def lines(self) -> list[bytes]:
        """The first lines, without one that is cut short."""
        lines = self.data.split(b"\n", LINES_LOOKED_AT)[:LINES_LOOKED_AT]
        return lines if self.whole or len(lines) < 2 else lines[:-1]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The first lines as JSON objects, empty ones for lines that are none; nothing where the first line is none."""
        if self.data.lstrip()[:1] != b"{":
            return []
        objects = [_object(line) for line in self.lines if line.strip()]
        return objects if objects and objects[0] else []

    @property
    def members(self) -> dict[str, Any]:
        """The first line as a JSON object, empty if it is none."""
        return next(iter(self.objects), {})


_MAGIC_CAPTURES: Final = (
    b"\xa1\xb2\xc3\xd4",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x4d\x3c\xb2\xa1",
    b"\x0a\x0d\x0d\x0a",
)
_RDB: Final = re.compile(rb"REDIS\d{4}|VALKEY\d{3}")
_COMMAND: Final = re.compile(rb"(?:#[^\n]*\n)*\*\d{1,7}\r\n\$\d{1,9}\r\n[A-Za-z]")
_WORD: Final = re.compile(rb"[!-~]+\r?")
_METRIC: Final = re.compile(rb'"__name__"\s*:\s*"(?:redis|valkey)_\w')
_LOG_ENTRY: Final = re.compile(rb'"(?:message|@message|log|line|Message)"\s*:\s*"(?:[^"\\]|\\.)*"')
"""The line in an entry of a log that is one JSON document."""
_INFO: Final = re.compile(rb"# \w+\r?\n\w+:")


def _is_capture_with(*marks: bytes) -> Callable[[FileBeginning], bool]:
    def test(file: FileBeginning) -> bool:
        if not file.data.startswith(_MAGIC_CAPTURES):
            return False
        data = file.data if file.whole else _read(file.path, SEARCHED_BYTES)
        return any(mark in data for mark in marks)

    return test


def _object(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
        return value if isinstance(value, dict) else {}
    return {}


def _is_manifest(file: FileBeginning) -> bool:
    if not file.whole or not file.data.startswith((b"file ", b"seq ", b"type ")):
        return False
    with suppress(DecodeError):
        read_manifest(file.data)
        return True
    return False


def _is_poll(members: dict[str, Any]) -> bool:
    text = next((members[name] for name in TEXT_NAMES if name in members), None)
    return isinstance(text, str) and any(name in members for name in TIME_NAMES)


def _is_metrics(file: FileBeginning) -> bool:
    return file.data.lstrip()[:1] in (b"{", b"[") and _METRIC.search(file.data) is not None


JSON_SIGNS: Final[Mapping[FileKind, Callable[[dict[str, Any]], bool]]] = {
    FileKind.NODE_POLLS: _is_poll,
    FileKind.SENTINEL_POLLS: lambda members: members.get("kind") == "sentinel" and "masters" in members,
    FileKind.INFO: lambda members: any(isinstance(members.get(name), str) for name in INFO_NAMES),
    FileKind.KEYS_JSONL: lambda members: not KEY_COLUMNS.isdisjoint(members),
}
"""Each kind of JSON lines with the test of one line."""


def _are_lines_of(kind: FileKind) -> Callable[[FileBeginning], bool]:
    """Whether enough of the first lines are of *kind*: one line alone, the first or another, decides nothing."""

    def test(file: FileBeginning) -> bool:
        objects = file.objects
        return bool(objects) and sum(map(JSON_SIGNS[kind], objects)) >= JSON_LINES_SHARE * len(objects)

    return test


def _other_lines(file: FileBeginning, kind: FileKind) -> str:
    """Return how many of the first lines of JSON are not of *kind*, as text; empty for none."""
    if kind not in JSON_SIGNS:
        return ""
    objects = file.objects
    count = len(objects) - sum(map(JSON_SIGNS[kind], objects))
    return f"{count} of the first {len(objects)} lines are something else" if objects and count else ""


def _log_rows(file: FileBeginning) -> list[LogRow]:
    from cluster_core.formats.server_log import LogReader, LogRow  # a fiftieth of a second that most files do not need

    entries = _LOG_ENTRY.findall(file.data) if file.data.lstrip()[:1] in (b"{", b"[") and not file.members else []
    lines = [b"{%s}" % entry for entry in entries[:LINES_LOOKED_AT]] or file.lines
    rows_and_others = LogReader().feed(b"\n".join(lines) + b"\n")
    rows = [row for row in rows_and_others if isinstance(row, LogRow)]
    return rows if LOG_LINES_SHARE * len(rows_and_others) < len(rows) else []


def _is_monitor(file: FileBeginning) -> bool:
    with suppress(DecodeError):
        return any(read_monitor_line(line, offset=0) is not None for line in file.lines[:2])
    return False


def _is_topology(file: FileBeginning) -> bool:
    from cluster_core.topology.replies import read_topology  # as above

    with suppress(DecodeError):
        data = file.data if file.whole else _read(file.path, TOPOLOGY_BYTES_MAX)
        return bool(read_topology(data, strict=False).nodes)
    return False


def _is_csv(file: FileBeginning) -> bool:
    names = [name.strip().strip(b'"').decode("latin-1") for name in file.lines[0].split(b",")]
    return len(names) > 1 and not KEY_COLUMNS.isdisjoint(names)


def _is_key_lines(file: FileBeginning) -> bool:
    lines = [line for line in file.lines if line.strip()]
    quoted = [line for line in lines if line[:1] == b'"' and line.rstrip()[-1:] == b'"']
    keys = [line for line in lines if _WORD.fullmatch(line)]
    is_json = file.data.lstrip()[:1] in (b"{", b"[")
    return (
        _is_text(file)
        and not is_json
        and len(lines) >= KEY_LINES_MIN
        and max(len(quoted), len(keys)) >= KEY_LINES_SHARE * len(lines)
    )


def _is_text(file: FileBeginning) -> bool:
    if b"\0" in file.data:
        return False
    try:
        file.data.decode()
    except UnicodeDecodeError as error:
        return not file.whole and error.start >= len(file.data) - 4
    return True


SIGNS: Final[tuple[tuple[FileKind, Callable[[FileBeginning], bool]], ...]] = (
    (FileKind.RDB, lambda file: bool(_RDB.match(file.data))),
    (FileKind.KEYS_PARQUET, lambda file: file.data.startswith(b"PAR1")),
    (FileKind.BUS_CAPTURE, _is_capture_with(b"RCmb")),
    (FileKind.OTHER_CAPTURE, lambda file: file.data.startswith(_MAGIC_CAPTURES)),
    (FileKind.AOF_MANIFEST, _is_manifest),
    (FileKind.AOF, lambda file: bool(_COMMAND.match(file.data))),
    (FileKind.METRICS, _is_metrics),
    (FileKind.NODE_POLLS, _are_lines_of(FileKind.NODE_POLLS)),
    (FileKind.SENTINEL_POLLS, _are_lines_of(FileKind.SENTINEL_POLLS)),
    (FileKind.INFO, lambda file: bool(_INFO.match(file.data)) or _are_lines_of(FileKind.INFO)(file)),
    (FileKind.KEYS_JSONL, _are_lines_of(FileKind.KEYS_JSONL)),
    (FileKind.SENTINEL_LOG, lambda file: any(row.role == "X" for row in _log_rows(file))),
    (FileKind.SERVER_LOG, lambda file: bool(_log_rows(file))),
    (FileKind.TOPOLOGY, _is_topology),
    (FileKind.MONITOR, _is_monitor),
    (FileKind.KEYS_CSV, _is_csv),
    (FileKind.KEYS_TEXT, _is_key_lines),
)
"""Each kind with the test of a file's beginning; the first that holds is it."""


def find_files(paths: Iterable[str]) -> list[InputFile]:
    """Return all files of *paths* (files, globs, whole folders, URIs) without hidden ones of folders.

    Raises DecodeError for missing files.
    """
    files: dict[str, InputFile] = {}
    for path in paths:
        is_folder = not is_uri(path) and os.path.isdir(path)
        inside = list(islice(walk_files(path), FILES_MAX + 1)) if is_folder else [path]
        for file in expand(inside):
            files[file.path] = file
            if len(files) > FILES_MAX:
                raise DecodeError(f"more than {FILES_MAX:,} files: name those that matter", offset=0, source=path)
    return list(files.values())


def recognise(path: str) -> RecognisedFile:
    """Recognize the file at *path*; the answer is one line."""
    try:
        data = _read(path, HEAD_BYTES + 1)
        compression = compression_of(path) or ""
    except DecodeError as error:
        return RecognisedFile(path, FileKind.UNKNOWN, error.reason)
    if not data:
        return RecognisedFile(path, FileKind.UNKNOWN, "empty")
    file = FileBeginning(path, data[:HEAD_BYTES], len(data) <= HEAD_BYTES)
    try:
        kind = next((kind for kind, test in SIGNS if test(file)), FileKind.UNKNOWN)
    except DecodeError as error:  # further on it is damaged
        return RecognisedFile(path, FileKind.UNKNOWN, error.reason)
    if kind is FileKind.UNKNOWN:
        return RecognisedFile(path, kind, _looks(file))
    return RecognisedFile(path, kind, ", ".join(filter(None, (compression, _other_lines(file, kind)))))


def _looks(file: FileBeginning) -> str:
    """Describe the beginning of a file of no known kind."""
    begins = repr(file.data[:SHOWN_BYTES])[2:-1]
    if not _is_text(file):
        return f"binary data that begins {begins}"
    return f"JSON that begins {begins}" if file.data.lstrip()[:1] in (b"{", b"[") else f"text that begins {begins}"


def _read(path: str, count: int) -> bytes:
    """Return the first *count* plain bytes of a file, of a damaged one those before the damage; raises DecodeError for none."""
    stream = open_stream(path)
    room = memoryview(bytearray(count))
    filled = 0
    try:
        while filled < count and (got := stream.readinto(room[filled:])):
            filled += got
    except DecodeError:
        if not filled:
            raise
    finally:
        stream.close()
    return bytes(room[:filled])
