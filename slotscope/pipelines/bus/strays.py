"""What lies in a landing where it is not followed: said once, since whose it is would be a guess."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from cluster_core.formats.landing import read_path
from slotscope.runtime.text import plural, printable, shown

DEPTH_MAX: Final = 4
"""Of a file below its landing: cluster, point, kind, name."""


class Strays:
    """Tells of what is passed over in *landing*, each folder once."""

    def __init__(self, landing: str) -> None:
        scheme, mark, rest = landing.rpartition("://")
        self._landing = f"{scheme}{mark}{posixpath.normpath(rest)}" if mark else os.path.abspath(rest)
        self._told: set[str] = set()

    def is_one(self, path: str) -> bool:
        """Whether the file at *path* lies deeper than recordings do."""
        return path.count("/") - self._landing.count("/") > DEPTH_MAX

    def lines(self, paths: Iterable[str]) -> Iterator[str]:
        """What is to be said of *paths* that are `is_one`, and of folders whose names Spark cannot read."""
        files: dict[str, int] = {}
        for path in paths:
            if read_path(path) is not None:
                below = path[len(self._landing) :].strip("/").split("/")
                home = "/".join(below[:-DEPTH_MAX])
                files[home] = files.get(home, 0) + 1
        for home, count in sorted(files.items()):
            if self._is_new(home):
                place = printable(f"{self._landing}/{home}")
                yield (
                    f"{place}: {plural(count, 'recorded file')} below it not followed: they lie deeper than CLUSTER/POINT/KIND; "
                    f"follow that folder with --landing {place} and a --root of its own"
                )
        for folder in self._unreadable():
            if self._is_new(os.fsdecode(folder)):
                yield f"{shown(folder, len(folder) * 4)}: not followed: its name is not UTF-8; rename it"

    def _is_new(self, folder: str) -> bool:
        is_new = folder not in self._told
        self._told.add(folder)
        return is_new

    def _unreadable(self) -> list[bytes]:
        """Folders of clusters and points whose names are not UTF-8, which a JVM passes over."""
        if "://" in self._landing:
            return []
        found = [f for level in ("*", "*/*") for f in glob.glob(f"{glob.escape(self._landing)}/{level}")]
        return sorted(os.fsencode(one) for one in found if not _is_text(one) and _is_text(os.path.dirname(one)))


def _is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)
