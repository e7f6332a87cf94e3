"""The machine and the versions that figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from benchmarks.data import redis_server, valkey_server

_PACKAGES = ("numpy", "numba", "llvmlite", "pyarrow", "pyspark", "delta-spark", "fastcrc", "crcmod")


def describe() -> dict[str, str]:
    """Return what is known of the machine: processor, memory, operating system, programs and packages."""
    cpu = _first_match(r"model name\s*: (.+)", _read("/proc/cpuinfo")) or platform.machine()
    memory = _first_match(r"MemTotal:\s+(\d+)", _read("/proc/meminfo"))
    facts: dict[str, str | None] = {
        "processor": f"{cpu}, {os.cpu_count()} cores",
        "memory": f"{int(memory) / 2**20:.0f} GiB" if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "load before the run": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "Python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "Java": _first_match(r'version "([^"]+)"', _printed("java", "-version")),
        "C compiler": _printed("cc", "--version").partition("\n")[0] or None,
        "redis-server": _first_match(r"v=(\S+)", _printed(redis_server(), "--version")),
        "valkey-server": _first_match(r"v=(\S+)", _printed(valkey_server(), "--version")),
    }
    return {what: value for what, value in facts.items() if value}


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _printed(program: str | None, *arguments: str) -> str:
    path = shutil.which(program) if program else None
    if path is None:
        return ""
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


def _first_match(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match.group(1).strip() if match else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
