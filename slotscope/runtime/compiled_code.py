"""Compiled kernels for those who have none: executors of a cluster, and users of an environment that was set up once.

The code cache (`cluster_core.kernels.code_cache`) names code by the content of its sources, the version of Python and numba, and the CPU; where one
of these differs nothing fits, and kernels are compiled.
"""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from slotscope.runtime.program import cache_folder

PACKED = Path(sys.prefix, "share", "slotscope", "compiled")
"""What set-up has compiled for all users of this environment."""
CACHE_FOLDER = "slotscope"
COMPILING = "compiling for this machine, once"
_CODE_FOLDER = re.compile("-[0-9a-f]{32}$")


def pack_beside_programs(packed: Path = PACKED) -> int:
    """Copy what this user has compiled to where every user of this Python environment finds it; how many files, 0 where none may be."""
    try:
        return sum(_copy_folder(folder, packed / folder.name) for folder in _folders())
    except OSError:
        return 0


def take_packed(packed: Path = PACKED) -> int:
    """Copy what set-up has packed to this user's cache, where that has nothing of it; how many files, 0 where nothing can be kept."""
    if not sys.platform.startswith("linux"):  # elsewhere caches lie elsewhere
        return 0
    own = _own_folder()
    try:
        lacking = [folder for folder in packed.iterdir() if not (own / folder.name).is_dir()]
        return sum(_copy_folder(folder, own / folder.name) for folder in lacking)
    except OSError:
        return 0


def compiled_since(unix_time: float) -> str:
    """In words, that code was kept since *unix_time*, by whatever process of this user: its first run takes long; nothing where none was."""
    try:
        folders = [folder for folder in os.scandir(_own_folder()) if _CODE_FOLDER.search(folder.name)]
        return COMPILING if any(folder.stat().st_mtime >= unix_time for folder in folders) else ""
    except OSError:
        return ""


def compiling_notice() -> str:
    """A line for users whose first read will compile, empty where code was kept before: Spark shows nothing of what its workers do."""
    try:
        kept = any(_CODE_FOLDER.search(folder.name) for folder in os.scandir(_own_folder()))
    except OSError:
        kept = False
    notice = (
        "slotscope: the first read compiles native code for a minute or two, once; `slotscope setup` does it in advance"
    )
    return "" if kept else f"{notice}\n"


def _own_folder() -> Path:
    return Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder().parent, CACHE_FOLDER)


def _copy_folder(folder: Path, target: Path) -> int:
    target.mkdir(parents=True, exist_ok=True)
    files = sorted(folder.glob("*.nb[ci]"), key=lambda file: file.suffix)  # code before the index that names it
    for file in files:
        arriving = target / f"{file.name}.{os.getpid()}"
        shutil.copyfile(file, arriving)
        os.replace(arriving, target / file.name)
    return len(files)


def pack_for_executors(archive: Path) -> int:
    """Write what this user has compiled to a zip that unpacks as a cache folder; how many files."""
    files = [file for folder in _folders() for file in sorted(folder.glob("*.nb[ci]"))]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.write(file, f"{CACHE_FOLDER}/{file.parent.name}/{file.name}")
    return len(files)


def _folders() -> list[Path]:
    """The folders of the code cache that fit the sources as they are now."""
    import cluster_core
    from cluster_core.kernels.code_cache import CodeCache

    found: set[str] = set()
    for told in pkgutil.walk_packages(cluster_core.__path__, f"{cluster_core.__name__}."):
        if told.name.endswith("__main__"):
            continue
        for value in vars(import_module(told.name)).values():
            for one in value.values() if isinstance(value, dict) else (value,):
                kept: Any = getattr(one, "_cache", None)
                if isinstance(kept, CodeCache) and kept.digest:
                    found.add(kept.cache_path)
    return [Path(folder) for folder in sorted(found) if Path(folder).is_dir()]
