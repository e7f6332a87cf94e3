"""The settings of ``conf/slotscope.toml``: read once, on the driver, into one frozen value.

Order: the command line over ``--conf-file`` over ``conf/slotscope.toml``.  Functions get values, not this
object.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slotscope.runtime.conf import read_conf
from slotscope.runtime.errors import InputError

FILE_BYTES_MAX = 1 << 20
"""A file of settings is a page; a larger one is something else."""

LIMITS = {
    "top": (1, 100_000),
    "top_per_slot": (1, 1_000),
    "groups_listed": (1, 1_000_000),
    "groups_max": (16, 16_777_216),
    "prefix_depth": (1, 32),
}
"""Smallest and largest value of each number: what the tables and the memory of a task can take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One value for each line of ``conf/slotscope.toml``; the reasons stand there."""

    top: int
    top_per_slot: int
    groups_listed: int
    separators: str
    prefix_depth: int
    groups_max: int


def read_settings(conf_file: str | None = None, **given: Any) -> Settings:
    """Return the settings; *given* are values of the command line, None for those that the user did not give.

    Raises `InputError` that names the file and the key for an unknown key, a value of another type or out of
    its limits.
    """
    values = _flat(read_conf("slotscope.toml"), "conf/slotscope.toml")
    if conf_file is not None:
        values |= _flat(_text(conf_file), conf_file)
    for name, value in given.items():
        if value is not None:
            values[name] = _checked(name, value, f"--{name.replace('_', '-')}")
    return Settings(**values)


def _text(path: str) -> str:
    if Path(path).stat().st_size > FILE_BYTES_MAX:
        raise InputError(f"{path}: larger than {FILE_BYTES_MAX} bytes: not a file of settings")
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: offset {error.start}: not UTF-8 text") from error


def _flat(text: str, source: str) -> dict[str, Any]:
    """The sections of the file as one dict of checked values; a key may stand in its section or at
    the top.
    """
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: {error}") from error
    values: dict[str, Any] = {}
    for name, value in parsed.items():
        entries = value.items() if isinstance(value, dict) else [(name, value)]
        values |= {key: _checked(key, entry, f"{source}: {key}") for key, entry in entries}
    return values


def _checked(name: str, value: Any, where: str) -> Any:
    kinds = {field.name: field.type for field in fields(Settings)}
    if name not in kinds:
        raise InputError(f"{where} is not a setting; there are {', '.join(sorted(kinds))}")
    if type(value).__name__ != kinds[name]:
        raise InputError(f"{where} must be {'a whole number' if kinds[name] == 'int' else 'text in quotes'}")
    least, most = LIMITS.get(name, (None, None))
    if least is not None and most is not None and not least <= value <= most:
        raise InputError(f"{where} is {value}; it must be from {least} to {most}")
    if value == "":
        raise InputError(f"{where} must not be empty")
    return value
