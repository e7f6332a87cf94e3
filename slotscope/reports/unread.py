"""Sentences on unread input, for all reports and commands."""

from __future__ import annotations

from cluster_core.load.unread import FileUnread, UnreadInputs
from slotscope.runtime import text

FILES_SHOWN = 8
"""Inputs that are named."""
SOURCE_LENGTH_MAX = 160
UNREAD_NOTE = "these figures exclude unread input"


def unread_lines(unread: UnreadInputs) -> list[str]:
    """Return a sentence per input, the least read first, and one on all; none if everything was read."""
    ordered = sorted(unread.files, key=lambda file: (-1.0 if file.share is None else -file.share, file.source))
    lines = [f"{text.printable(file.source, SOURCE_LENGTH_MAX)}: {unread_text(file)}" for file in ordered[:FILES_SHOWN]]
    if len(unread.files) > FILES_SHOWN:
        lines.append(f"and {text.plural(len(unread.files) - FILES_SHOWN, 'more input')} that could not be read in full")
    if unread:
        lines.append(f"all inputs together: {unread_text(unread.whole)}")
    return lines


def partial_lines(unread: UnreadInputs) -> list[str]:
    """Return lines that mark a plan as partial, with the unread share of each input."""
    lines = unread_lines(unread)
    return (
        [
            f"partial: made from inputs that could not be read in full; {UNREAD_NOTE}",
            *(f"partial: {line}" for line in lines),
        ]
        if lines
        else []
    )


def unread_text(file: FileUnread) -> str:
    """Return the unread share of *file*: ``at least 54 % of its keys (874 of 1,607) were not read``."""
    noun = "keys" if file.kind in ("rdb", "aof") else "records"
    pronoun = "its" if file.source else "their"
    parts = []
    if file.records and file.unread_records:
        of = f"{text.count(file.unread_records)} of {text.count(file.records)}"
        least = "at least " if file.kind == "rdb" else ""  # a dump announces each database when it comes to it
        parts.append(f"{least}{text.percent(file.unread_records, file.records)} of {pronoun} {noun} ({of})")
    if file.file_bytes and file.unread_bytes:
        of = f"{text.size(file.unread_bytes)} of {text.size(file.file_bytes)}"
        parts.append(f"{text.percent(file.unread_bytes, file.file_bytes)} of {pronoun} bytes ({of})")
    ends = ", because it ends too early" if file.is_cut and file.source else ""
    if parts:
        return f"{' and '.join(parts)} were not read{ends}"
    if file.is_cut or file.unread_bytes is None:
        places = text.plural(file.bad_records, "place")
        return f"{places} could not be read{ends}; their share is unknown"
    return f"all of {pronoun} bytes were read, but not all of them are right"
