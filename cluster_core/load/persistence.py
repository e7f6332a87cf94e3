"""How old a dump is, and what a server that keeps only dumps would lose in a crash: INFO persistence and ``save`` points.

A server saves by itself as soon as, for one point (seconds, changes), more than so many seconds have passed since its last save and
so many changes were counted (`serverCron`).  A crash loses what was changed since the last save that has succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

WINDOWS_S: Final[dict[str, tuple[int, int]]] = {"always": (0, 0), "everysec": (1, 2), "no": (30, 30)}
"""By policy: the usual window and the longest, in seconds.

``always``: replies wait for fsync, so nothing answered is lost.  ``everysec``: a thread calls fsync each second; while one is
under way a write may wait up to two seconds.  ``no``: the kernel decides, on Linux 30 s by default (vm.dirty_expire_centisecs).
A crash of the server alone loses nothing under any of them: what it wrote is the kernel's.
"""


class LogRate(NamedTuple):
    """Bytes a second that are appended: on average, and in the busiest second."""

    mean_bytes: float
    peak_bytes: int


def describe_loss(policy: str | None, rate: LogRate | None) -> str:
    """Say in one sentence what a crash of the machine may lose; for all policies if *policy* is None."""
    policies = [policy] if policy is not None else list(WINDOWS_S)
    return "a crash of the machine may lose, with appendfsync " + "; ".join(_window(name, rate) for name in policies)


def _window(policy: str, rate: LogRate | None) -> str:
    usual, longest = WINDOWS_S[policy]
    if not longest:
        return f"{policy}: nothing that was answered"
    span = f"{usual} s of writes" if usual == longest else f"{usual} s of writes (at worst {longest} s)"
    if policy == "no":
        span = f"about {span}"
    if rate is None:
        return f"{policy}: {span}"
    return f"{policy}: {span}, {int(usual * rate.mean_bytes):,} bytes at the log's mean rate, {longest * rate.peak_bytes:,} at its peak"


POINTS_MAX = 100
_NUMBER = re.compile(r"[0-9]{1,18}")


class SavePoint(NamedTuple):
    """Save after *seconds* if *changes* were counted."""

    seconds: int
    changes: int


class Persistence(NamedTuple):
    """What a node answered to INFO persistence at *at_ms*.

    *points* are its save points, None if it was not asked for them, empty if it never saves by itself.  *log* says whether it
    keeps an append-only log, *failed* whether its last attempt to save did, *saving_s* how long a save takes; None: not told.
    *replid* and *offset* are its replication id and offset then, if the section was there.
    """

    node: str
    at_ms: int
    last_save_ms: int
    changes: int
    points: tuple[SavePoint, ...] | None
    log: bool | None
    failed: bool | None
    saving_s: int | None
    replid: str = ""
    offset: int | None = None


def read_save_points(words: str) -> tuple[SavePoint, ...] | None:
    """Return the points of ``CONFIG GET save``, such as ``3600 1 300 100``; None for what is none.

    >>> read_save_points("900 1 60 1000")
    (SavePoint(seconds=900, changes=1), SavePoint(seconds=60, changes=1000))
    """
    numbers = words.strip().strip('"').split()
    if len(numbers) % 2 or len(numbers) > 2 * POINTS_MAX or not all(_NUMBER.fullmatch(number) for number in numbers):
        return None
    return tuple(
        SavePoint(int(seconds), int(changes)) for seconds, changes in zip(numbers[::2], numbers[1::2], strict=True)
    )


def read_persistence(info: Mapping[str, str], *, node: str, at_ms: int, save: str | None) -> Persistence | None:
    """Return what the fields of an INFO reply say of persistence; None if they do not."""
    last, changes = _number(info, "rdb_last_save_time"), _number(info, "rdb_changes_since_last_save")
    if last is None or changes is None:
        return None
    status = info.get("rdb_last_bgsave_status")
    log = info.get("aof_enabled")
    return Persistence(
        node,
        at_ms,
        last * 1000,
        changes,
        None if save is None else read_save_points(save),
        None if log is None else log == "1",
        None if status is None else status != "ok",
        _number(info, "rdb_last_bgsave_time_sec"),
        info.get("master_replid", ""),
        _number(info, "master_repl_offset"),
    )


def _number(info: Mapping[str, str], name: str) -> int | None:
    text = info.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def changes_at_risk(told: Persistence) -> int | None:
    """Return how many changes a crash just before the next save by itself would lose, at the rate since the last one.

    None if no point is known, or if the server never saves by itself.
    """
    if not told.points:
        return None
    rate = told.changes / max((told.at_ms - told.last_save_ms) / 1000, 1.0)
    if not rate:
        return 0
    wait_s = min(max(point.seconds + 1.0, point.changes / rate) for point in told.points)
    return round(rate * (wait_s + (told.saving_s or 0)))


def describe_persistence(told: Persistence) -> list[str]:
    """Say in sentences how long ago the node saved and what a crash would have lost then, and at worst."""
    changes = _plural(told.changes, "change")
    since = f"{told.node} last saved {age(told.at_ms - told.last_save_ms)} before it was asked, {changes} ago"
    if told.log:
        found = [f"{since}; its append-only log holds them"]
    elif told.changes:
        found = [
            f"{since}: a crash then would have lost them, because it keeps no append-only log"
            if told.log is False
            else f"{since}: without an append-only log a crash then would have lost them"
        ]
    else:
        found = [f"{since}: a crash then would have lost nothing"]
    if told.failed:
        found.append(f"{told.node}: its last attempt to save has failed, so what is lost grows until one succeeds")
    if told.points is not None and not told.log:
        found.append(_describe_points(told, told.points))
    return found


def _describe_points(told: Persistence, points: tuple[SavePoint, ...]) -> str:
    if not points:
        return f"{told.node} has no save points: it saves only when told to, and a crash loses all changes since"
    rules = ", ".join(f"after {point.seconds:,} s with {_plural(point.changes, 'change')}" for point in points)
    text = f"{told.node} saves {rules}"
    risk = changes_at_risk(told)
    return (
        text
        if risk is None
        else f"{text}: at the rate since its last save a crash loses up to {_plural(risk, 'change')}"
    )


def age(passed_ms: int) -> str:
    """Return a time that has passed, in the one or two largest units.

    >>> age(90_000), age(2 * 86_400_000 + 3_700_000)
    ('1 min 30 s', '2 d 1 h')
    """
    left = max(passed_ms, 0) // 1000
    parts: list[str] = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, seconds)
        if number or (unit == "s" and not parts):
            parts.append(f"{number:,} {unit}")
        if len(parts) == 2 or (parts and not number):
            break
    return " ".join(parts[:2])


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
