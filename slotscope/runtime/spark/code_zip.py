"""The zip that carries the code to executors: ``python -m slotscope.runtime.spark.code_zip FILE`` (what ``--py-files``
takes).

The same sources give the same bytes: names sorted, one fixed time, one mode.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

TOP_LEVEL = ("cluster_core", "slotscope")
BESIDE = ("jobs", "schemas")
"""Packages of the repository that a wheel has inside `slotscope` (setup.py)."""
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
LEFT_OUT = ("__pycache__", "demo_data")


def build(target: Path) -> Path:
    """Write the packages with their data files to *target* and return it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        beside = [name for name in BESIDE if not files("slotscope").joinpath(name).is_dir()]
        for package in (*TOP_LEVEL, *beside):
            for name, entry in _walk(files(package), package):
                info = zipfile.ZipInfo(name, FIXED_TIME)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, entry.read_bytes())
    return target


def running_from() -> Path | None:
    """The zip that this module was imported from, if it was."""
    for parent in Path(__file__).absolute().parents:
        if parent.is_file() and zipfile.is_zipfile(parent):
            return parent
    return None


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = f"{prefix}/{entry.name}"
        if entry.name in LEFT_OUT or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, name)
        else:
            yield name, entry


if __name__ == "__main__":
    build(Path(sys.argv[1]))
