"""Other people's dump readers, found on the machine or installed into ``build/bench-peers`` when a benchmark runs.

Nothing of them is part of this project.  A peer that cannot be installed is named with the reason and left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import valkey_server
from benchmarks.measure import RunError

PEERS = Path("build/bench-peers")
_INSTALL_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that reads a dump: *command* and the dump's path make its command line; *does* says what it reports."""

    name: str
    does: str
    command: tuple[str, ...]
    refuses: str = ""
    """Words in its output that mean failure although its exit code is 0."""
    after: tuple[str, ...] = ()
    """Arguments that follow the dump's path."""


def find_peers() -> tuple[list[Peer], list[str]]:
    """Return the peers that are here or can be installed, and one line for each that is not."""
    peers: list[Peer] = []
    missing: list[str] = []
    for make in (_redis_check, _valkey_check, _valkey_stats, _rdb_rs, _rdb_py, _hdt):
        try:
            peers.append(make())
        except RunError as error:
            missing.append(str(error))
    return peers, missing


def _redis_check() -> Peer:
    path = shutil.which("redis-check-rdb")
    if path is None:
        raise RunError("redis-check-rdb: is not installed")
    return Peer("redis-check-rdb", "totals, CRC", (path,), refuses="RDB ERROR")


def _valkey_check() -> Peer:
    return Peer("valkey-check-rdb", "totals, CRC", (str(_valkey_check_path()),), refuses="RDB ERROR")


def _valkey_stats() -> Peer:
    command = (str(_valkey_check_path()),)
    return Peer(
        "valkey-check-rdb --stats",
        "totals by type, CRC",
        command,
        "RDB ERROR",
        ("--stats", "--format", "info"),
    )


def _valkey_check_path() -> Path:
    """Return ``valkey-check-rdb``: the server's own program under the name that makes it check."""
    program = shutil.which("valkey-check-rdb")
    if program:
        return Path(program)
    server = valkey_server()
    if server is None:
        raise RunError("valkey-check-rdb: no valkey-server is installed")
    PEERS.mkdir(parents=True, exist_ok=True)
    link = PEERS / "valkey-check-rdb"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(server).resolve())
    return link


def _rdb_rs() -> Peer:
    program = PEERS / "cargo" / "bin" / "rdb"
    if not program.exists():
        cargo = _needed("cargo", "rdb-rs")
        target = ["--root", str(PEERS / "cargo"), "--target-dir", str(PEERS / "cargo-target")]
        _install("rdb-rs", cargo, "install", "--quiet", *target, "rdb@0.4.0")
        shutil.rmtree(PEERS / "cargo-target", ignore_errors=True)
    return Peer("rdb-rs 0.4.0 -f nil", "nothing (parses values), no streams, no CRC", (str(program), "-f", "nil"))


def _rdb_py() -> Peer:
    python = _python_with("rdb-py", "rdb-py==0.4.0")
    code = "import rdb, sys\nprint(sum(1 for _ in rdb.RdbDecoder(sys.argv[1])))"
    return Peer("rdb-py 0.4.0", "each value as a Python object, no streams, no CRC", (str(python), "-c", code))


def _hdt() -> Peer:
    program = shutil.which("rdb", path=str(PEERS / "go" / "bin"))
    if program is None:
        go = _needed("go", "HDT3213/rdb")
        home = (PEERS / "go").resolve()
        places = [f"GOPATH={home}", f"GOCACHE={home / 'cache'}", "GOFLAGS=-modcacherw"]
        _install("HDT3213/rdb", "env", *places, go, "install", "github.com/hdt3213/rdb@latest")
        program = str(home / "bin" / "rdb")
    report = str(PEERS / "hdt-memory.csv")
    return Peer(
        "HDT3213/rdb -c memory",
        "each key's type, size, expiry",
        (program, "-c", "memory", "-o", report),
        "unsupported",
    )


def rdbtools() -> Peer:
    """Return rdbtools (RDB 9 at most) with its fast LZF module; raises RunError where it does not install."""
    python = _python_with("rdbtools", "rdbtools==0.1.15", "python-lzf==0.2.6")
    command = (str(python.with_name("rdb")), "-c", "memory", "-f", str(PEERS / "rdbtools-memory.csv"))
    return Peer("rdbtools 0.1.15 -c memory", "each key's type, size, expiry", command)


def _python_with(name: str, *packages: str) -> Path:
    """Return the Python of a virtual environment that holds *packages* and nothing of ours."""
    home = PEERS / name
    python = home / "bin" / "python"
    stamp = home / "installed"
    if not stamp.exists():
        _install(name, sys.executable, "-m", "venv", str(home))
        _install(name, str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        stamp.touch()
    return python


def _needed(program: str, peer: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise RunError(f"{peer}: {program}, which installs it, is not here")
    return path


def _install(peer: str, *command: str) -> None:
    PEERS.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_INSTALL_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired):
        raise RunError(f"{peer}: its installation did not finish") from None
    if done.returncode != 0:
        raise RunError(f"{peer}: does not install on this machine")
