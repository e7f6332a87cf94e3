"""Slots of a column of keys: the kernel against library calls, loops in C and the memory, in one run."""

from __future__ import annotations

import binascii
import ctypes
import importlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table, bars_markdown, rows_markdown
from cluster_core.kernels.key_slots import key_slots
from cluster_core.slots.key_slot import key_slot

NAME = "key_slots"
KEY_BYTES = 24
KEYS = 5_000_000
CALLED_KEYS = 200_000
ROUNDS = 15
OURS = "kernel (ours)"
C_TABLE = "C, byte table"
BARE = "bare: "
TIMES = "×"

C_FLAGS = ("-O3", "-shared", "-fPIC")
C_SOURCE = r"""
#include <stddef.h>
#include <stdint.h>

static uint16_t T[8][256]; /* row k: the CRC of a byte followed by k zero bytes */

void fill(void) {
    for (int k = 0; k < 8; k++)
        for (int b = 0; b < 256; b++) {
            uint16_t c = (uint16_t)(b << 8);
            for (int i = 0; i < 8 * (k + 1); i++)
                c = (c & 0x8000) ? (uint16_t)(c << 1) ^ 0x1021 : (uint16_t)(c << 1);
            T[k][b] = c;
        }
}

static void hashed(const uint8_t **key, size_t *length) {
    const uint8_t *k = *key;
    size_t n = *length, open = 0, close;
    while (open < n && k[open] != '{') open++;
    if (open == n) return;
    for (close = open + 1; close < n && k[close] != '}'; close++) {}
    if (close == n || close == open + 1) return;
    *key = k + open + 1;
    *length = close - open - 1;
}

void byte_table(const uint8_t *data, const int32_t *offsets, uint16_t *slots, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *key = data + offsets[i];
        size_t length = (size_t)(offsets[i + 1] - offsets[i]);
        uint16_t c = 0;
        hashed(&key, &length);
        while (length--) c = (uint16_t)(c << 8) ^ T[0][(c >> 8) ^ *key++];
        slots[i] = c & 16383;
    }
}

void slicing(const uint8_t *data, const int32_t *offsets, uint16_t *slots, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *key = data + offsets[i];
        size_t length = (size_t)(offsets[i + 1] - offsets[i]);
        uint16_t c = 0;
        hashed(&key, &length);
        for (; length >= 8; length -= 8, key += 8)
            c = T[7][key[0] ^ (c >> 8)] ^ T[6][key[1] ^ (c & 255)] ^ T[5][key[2]] ^ T[4][key[3]]
                ^ T[3][key[4]] ^ T[2][key[5]] ^ T[1][key[6]] ^ T[0][key[7]];
        while (length--) c = (uint16_t)(c << 8) ^ T[0][(c >> 8) ^ *key++];
        slots[i] = c & 16383;
    }
}

uint64_t touch(const uint8_t *data, int64_t bytes) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < bytes; i++) sum += data[i];
    return sum;
}
"""


@dataclass(frozen=True, slots=True)
class Keys:
    """One set of keys, as a column and, its first ones, as bytes for calls one by one."""

    title: str
    column: pa.Array
    called: list[bytes]

    @property
    def data(self) -> NDArray[np.uint8]:
        """All bytes."""
        return np.frombuffer(self.column.buffers()[2], dtype=np.uint8)

    @property
    def offsets(self) -> NDArray[np.int32]:
        """Where each key begins."""
        return np.frombuffer(self.column.buffers()[1], dtype=np.int32)


def run(options: Options | None = None) -> Result:
    """Measure every way over keys with hash tags and over keys without."""
    quick = options is not None and options.quick
    count = KEYS // 50 if quick else KEYS
    result = Result(
        NAME,
        "Slots of a column of keys",
        f"{count:,} keys of {KEY_BYTES} bytes, one core; the least of {2 if quick else ROUNDS} rounds, all "
        f"ways in turn; library calls over the first {min(count, CALLED_KEYS):,}, "
        "bare ones without the hash-tag rule.",
        tables=[],
    )
    with _native() as native:
        if native is None:
            result.skipped.append("loops in C and reading every byte: no C compiler")
        for number, keys in enumerate((_tagged(count), _untagged(count))):
            rows = _rows(_measure(keys, native, 2 if quick else ROUNDS, result.skipped))
            result.tables.append(Table(keys.title, rows))
            if not number:
                result.bars.extend(_bars(rows))
            elif native is not None:
                result.bars.append(_against_c(rows, "keys without hash tags, against a C byte-table loop"))
    return result


def _bars(rows: list[dict[str, Cell]]) -> list[Bar]:
    ns = {str(row["way"]): float(row["ns per key"] or 0) for row in rows}
    fastest = min((name for name in ns if name.startswith(BARE)), key=lambda name: ns[name])
    return [
        Bar(f"a key of {KEY_BYTES} bytes with a hash tag, one core", 30, ns[OURS], "ns"),
        Bar(f"against the fastest library call ({fastest})", 8, ns[fastest] / ns[OURS], TIMES, at_most=False),
        _against_c(rows, "against a C byte-table loop"),
    ]


def _against_c(rows: list[dict[str, Cell]], promise: str) -> Bar:
    ns = {str(row["way"]): float(row["ns per key"] or 0) for row in rows}
    return Bar(promise, 1, ns[C_TABLE] / ns[OURS] if C_TABLE in ns else None, TIMES, at_most=False)


def _measure(keys: Keys, native: ctypes.CDLL | None, rounds: int, skipped: list[str]) -> dict[str, float]:
    """Return the least ns per key of every way; raises RuntimeError when two ways disagree."""
    slots = key_slots(keys.column)
    if slots[: len(keys.called)].tolist() != [key_slot(key) for key in keys.called]:
        raise RuntimeError("the kernel and the plain function disagree")
    ways: dict[str, tuple[Callable[[], object], int]] = dict(_calls(keys.called, skipped))
    if native is not None:
        ways |= _loops(keys, slots, native)
    ways[OURS] = (lambda: key_slots(keys.column), len(keys.column))
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, (way, count) in ways.items():
            start = time.perf_counter()
            way()
            best[name] = min(best[name], (time.perf_counter() - start) / count * 1e9)
    return best


def _calls(called: list[bytes], skipped: list[str]) -> Iterator[tuple[str, tuple[Callable[[], object], int]]]:
    """Yield the calls key by key: our plain function, and each library's CRC without the hash-tag rule."""
    yield "plain function (ours)", (lambda: [key_slot(key) for key in called], len(called))
    for name, load in (("crcmod", _crcmod), ("fastcrc", _fastcrc)):
        try:
            yield f"{BARE}{name}", (partial(_call_each, load(), called), len(called))
        except ImportError:
            skipped.append(f"{name}: not installed")
    crc_hqx = binascii.crc_hqx
    yield f"{BARE}binascii.crc_hqx", (lambda: [crc_hqx(key, 0) & 16383 for key in called], len(called))


def _crcmod() -> Callable[[bytes], int]:
    made: Callable[[bytes], int] = importlib.import_module("crcmod.predefined").mkCrcFun("xmodem")
    return made


def _fastcrc() -> Callable[[bytes], int]:
    crc16: Callable[[bytes], int] = importlib.import_module("fastcrc.crc16").xmodem
    return crc16


def _call_each(crc: Callable[[bytes], int], called: list[bytes]) -> list[int]:
    return [crc(key) & 16383 for key in called]


def _loops(keys: Keys, slots: NDArray[np.uint16], native: ctypes.CDLL) -> dict[str, tuple[Callable[[], object], int]]:
    """Return the loops in C, after a look at whether they agree with *slots*."""
    computed = np.empty_like(slots)
    count = ctypes.c_int64(len(slots))
    arguments = (_pointer(keys.data), _pointer(keys.offsets), _pointer(computed), count)
    for loop in (native.byte_table, native.slicing):
        loop(*arguments)
        if not np.array_equal(computed, slots):
            raise RuntimeError("the kernel and the loop in C disagree")
    size = ctypes.c_int64(int(keys.offsets[-1]))
    return {
        C_TABLE: (lambda: native.byte_table(*arguments), len(slots)),
        "C, slicing by 8": (lambda: native.slicing(*arguments), len(slots)),
        "C, adding every byte": (lambda: native.touch(_pointer(keys.data), size), len(slots)),
    }


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@contextmanager
def _native() -> Iterator[ctypes.CDLL | None]:
    """Compile the C loops for as long as the block runs; None where no compiler is installed."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        source, library = Path(name) / "loops.c", Path(name) / "loops.so"
        source.write_text(C_SOURCE)
        subprocess.run([compiler, *C_FLAGS, "-o", str(library), str(source)], check=True)
        native = ctypes.CDLL(str(library))
        native.fill()
        yield native


def _rows(best: dict[str, float]) -> list[dict[str, Cell]]:
    return [{"way": name, "ns per key": ns, "times ours": ns / best[OURS]} for name, ns in best.items()]


def _tagged(count: int) -> Keys:
    """Keys with a tag of 1 to 12 digits anywhere in them."""
    random = np.random.default_rng(20)
    letters = random.integers(97, 123, (count, KEY_BYTES), dtype=np.uint8)
    length = random.integers(1, 13, count)
    start = random.integers(0, KEY_BYTES - 1 - length)
    column = np.arange(KEY_BYTES)
    inside = (column > start[:, None]) & (column <= (start + length)[:, None])
    letters[inside] = random.integers(48, 58, int(inside.sum()), dtype=np.uint8)
    rows = np.arange(count)
    letters[rows, start] = ord("{")
    letters[rows, start + length + 1] = ord("}")
    return _keys("Keys with hash tags of 1 to 12 bytes", letters)


def _untagged(count: int) -> Keys:
    random = np.random.default_rng(21)
    return _keys("Keys without hash tags", random.integers(97, 123, (count, KEY_BYTES), dtype=np.uint8))


def _keys(title: str, letters: NDArray[np.uint8]) -> Keys:
    offsets = np.arange(0, letters.size + 1, KEY_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters.reshape(-1))]
    column = pa.Array.from_buffers(pa.binary(), len(letters), buffers)
    return Keys(title, column, column[:CALLED_KEYS].to_pylist())


def main() -> None:
    """Print the tables."""
    result = run()
    for table in result.tables:
        print(f"{table.title}\n\n{rows_markdown(table.rows)}\n")
    print(bars_markdown(result.bars))


if __name__ == "__main__":
    main()
