"""The wheel of the files that git knows: what `pip install` of a clone makes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("cluster_core", "jobs", "schemas", "slotscope", "conf", "pyproject.toml", "setup.py", "README.md", "LICENSE")
"""What a build needs of the clone."""


def tracked(*folders: str) -> list[str]:
    """Paths of the files that git knows below *folders* of the clone and that are still there, symbolic links to folders followed."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    paths = [CHECKOUT / name for name in listed.stdout.splitlines()]
    inside = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return [str(path.relative_to(CHECKOUT)) for path in inside if path.is_file()]


def build_wheel(folder: Path) -> Path:
    """Build the wheel in *folder*, with the setuptools of this environment and without a package index."""
    source = folder / "source"
    for name in tracked(*SOURCES):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))
