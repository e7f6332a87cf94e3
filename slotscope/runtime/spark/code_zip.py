"""The zip that carries the code to executors: ``python -m slotscope.runtime.spark.code_zip FILE`` (for ``--py-files``)."""

from __future__ import annotations

import sys
import zipfile
from glob import glob
from pathlib import Path

HOME = Path(__file__).absolute().parents[3]
"""The folder, or the zip, that the code was imported from."""
TOP_LEVEL = ("cluster_core", "slotscope")
BESIDE = ("jobs", "schemas")
"""Packages of the repository that a wheel has inside `slotscope` (setup.py)."""
LEFT_OUT = {"__pycache__", "demo_data"}


def build(target: Path) -> Path:
    """Write the packages with their data files to *target* and return it; the same sources give the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    packages = [*TOP_LEVEL, *(name for name in BESIDE if not (HOME / "slotscope" / name).is_dir())]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(
            name for package in packages for name in glob(f"{package}/**", root_dir=HOME, recursive=True)
        ):
            if (HOME / name).is_file() and not LEFT_OUT & set(name.split("/")):
                info = zipfile.ZipInfo(name)  # of a fixed time
                info.external_attr = 0o644 << 16
                archive.writestr(info, (HOME / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    build(Path(sys.argv[1]))
