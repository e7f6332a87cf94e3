"""Is the installation complete?  Checked by ``slotscope setup``, before a command fails in the middle."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from cluster_core.routing.key_positions import TABLES, table_of
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import NAME

_REQUIRED = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:; extra == [\"'](\w+)[\"'])?")
"""Name and extra of a requirement; one with another condition is for some machines only."""


def check_installation() -> None:
    """Raise InputError, which names the first part that is missing; code that was not installed has no record of its parts."""
    try:
        found = distribution(NAME)
    except PackageNotFoundError:
        missing = []
    else:
        missing = [*missing_files(found), *missing_packages(found)]
    missing += [f"commands of {name}" for name in TABLES if not _has_table(name)]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"the installation is incomplete: no {missing[0]}{others}; install slotscope again")


def missing_files(found: Distribution) -> list[str]:
    """Files of the record that `pip` wrote which are not there; bytecode may be deleted.  A clone has a list that is older than its files."""
    if found.read_text("RECORD") is None:
        return []
    recorded = [file for file in found.files or () if file.suffix != ".pyc"]
    return [str(file) for file in recorded if not Path(str(found.locate_file(file))).exists()]


def missing_packages(found: Distribution) -> list[str]:
    """Required packages that are not installed; those of the extra "spark" are required where PySpark is installed."""
    asked = {"": ""} | ({"spark": ' (extra "spark")'} if _is_installed("pyspark") else {})
    required = [match.groups("") for words in found.requires or () if (match := _REQUIRED.fullmatch(words))]
    return [f"package {name}{asked[extra]}" for name, extra in required if extra in asked and not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _has_table(name: str) -> bool:
    try:
        return bool(table_of(name).commands)
    except FileNotFoundError:
        return False
