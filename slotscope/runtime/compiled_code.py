"""Compiled kernels for executors of a cluster, and notice of compilation.

The code cache (`cluster_core.kernels.code_cache`) names code by the content of its sources, the version of Python and numba, and the CPU; where one
of these differs nothing fits, and kernels are compiled.
"""

from __future__ import annotations

import os
import pkgutil
import re
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from slotscope.runtime.program import cache_folder

CACHE_FOLDER = "slotscope"
COMPILING = "compiling for this machine, once"
COMPILING_EACH = "compiling in each process: set XDG_CACHE_HOME to a folder that can be written"
_CODE_FOLDER = re.compile("-[0-9a-f]{32}$")


def compiled_since(unix_time: float) -> str:
    """Return a notice if this user has no folder for compiled code, or has compiled since *unix_time*; else an empty text."""
    own = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder().parent, CACHE_FOLDER)
    try:
        folders = [folder for folder in os.scandir(own) if _CODE_FOLDER.search(folder.name)]
        return COMPILING if any(folder.stat().st_mtime >= unix_time for folder in folders) else ""
    except OSError:
        parent = next(path for path in own.absolute().parents if path.exists())
        return "" if os.access(parent, os.W_OK) else COMPILING_EACH


def pack_for_executors(archive: Path) -> int:
    """Write this user's compiled code to a zip that unpacks as a cache folder; return the number of files."""
    files = [file for folder in _folders() for file in sorted(folder.glob("*.nb[ci]"))]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.write(file, f"{CACHE_FOLDER}/{file.parent.name}/{file.name}")
    return len(files)


def _folders() -> list[Path]:
    """The folders of the code cache that fit the sources as they are now."""
    import cluster_core
    from cluster_core.kernels.code_cache import CodeCache

    folders: set[str] = set()
    for info in pkgutil.walk_packages(cluster_core.__path__, f"{cluster_core.__name__}."):
        if info.name.endswith("__main__"):
            continue
        for value in vars(import_module(info.name)).values():
            for function in value.values() if isinstance(value, dict) else (value,):
                kept: Any = getattr(function, "_cache", None)
                if isinstance(kept, CodeCache) and kept.digest:
                    folders.add(kept.cache_path)
    return [Path(folder) for folder in sorted(folders) if Path(folder).is_dir()]
