"""The C programs of ``benchmarks/native``, compiled when a benchmark runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BUILT = Path("build/bench-native")
SOURCES = Path(__file__).parent / "native"
FLAGS = ("-O3",)


def compile_program(name: str) -> Path | None:
    """Return the program compiled from ``native/NAME.c``, or None where no C compiler is installed."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / name
    subprocess.run([compiler, *FLAGS, "-o", str(program), str(SOURCES / f"{name}.c")], check=True)
    return program
