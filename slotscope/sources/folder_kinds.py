"""Choice of a folder's files by their names, or else by their beginning.

A folder of dumps often holds the topology, checksums and a README beside them; a recording holds its gaps beside polls.  A file that was named
itself, or by a glob, is always taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from slotscope.sources.files import Kind
from slotscope.sources.recognition import FileKind, recognise

_COMPRESSED: Final = r"(?:\.gz|\.zst)?$"


def _kind(noun: str, names: str, *kinds: FileKind, or_binary: bool = False) -> Kind:
    """Files of *kinds* or with a name that matches *names*; with *or_binary* also unrecognized binary files: damaged ones."""
    return Kind(noun, _test(re.compile(names + _COMPRESSED, re.IGNORECASE), frozenset(kinds), or_binary))


def _test(names: re.Pattern[str], kinds: frozenset[FileKind], or_binary: bool) -> Callable[[str], bool]:
    def fits(path: str) -> bool:
        if names.search(path.rpartition("/")[2]):
            return True
        recognised = recognise(path)
        damaged = recognised.kind is FileKind.UNKNOWN and not recognised.about.startswith(("text", "JSON", "empty"))
        return recognised.kind in kinds or (or_binary and damaged)

    return fits


DUMPS: Final = _kind("RDB dumps", r"\.rdb", FileKind.RDB, or_binary=True)
CAPTURES: Final = _kind(
    "captures",
    r"\.(?:pcap|pcapng|cap)\d*",
    FileKind.BUS_CAPTURE,
    FileKind.OTHER_CAPTURE,
    or_binary=True,
)
LOGS: Final = _kind("logs of servers", r"\.log(?:[.-]\d+)*", FileKind.SERVER_LOG, FileKind.SENTINEL_LOG)
METRICS: Final = _kind("answers of Prometheus", r"prometheus[\w.-]*\.jsonl?", FileKind.METRICS)
POLLS: Final = _kind("polls", r"(?<!^gaps)\.jsonl", FileKind.NODE_POLLS, FileKind.SENTINEL_POLLS, FileKind.INFO)
KEY_LISTS: Final = _kind(
    "key lists",
    r"\.(?:csv|tsv|jsonl|parquet|keys)",
    FileKind.KEYS_PARQUET,
    FileKind.KEYS_JSONL,
    FileKind.KEYS_CSV,
    FileKind.KEYS_TEXT,
)
