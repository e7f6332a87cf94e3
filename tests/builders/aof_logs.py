"""Append-only logs for tests: written word by word, recorded from servers, walked."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cluster_core.aof.keyspace import Keyspace
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import CommandReader, Tail
from cluster_core.kernels.aof.walker import AofWalker
from cluster_core.rdb.export import ValueWriter, command_of
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.value_state import RESP
from tests.builders.rdb_rows import batches_of

RECORDED = Path(__file__).parents[1] / "data" / "aof" / "recorded.tar.xz"
SERVERS = ("redis-7.0", "valkey-9.1")
LOGS = ("aof-plain", "aof-preamble")


def log_of(*commands: Sequence[bytes | str | int]) -> bytes:
    return b"".join(command_of(*command) for command in commands)


@cache
def _recorded_files() -> dict[str, bytes]:
    with tarfile.open(RECORDED) as archive:
        return {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


def recorded_parts(server: str, log: str) -> dict[str, bytes]:
    prefix = f"{server}/{log}/"
    return {name.removeprefix(prefix): data for name, data in _recorded_files().items() if name.startswith(prefix)}


def recorded_log(server: str, log: str, folder: Path) -> Path:
    """Put a recorded log into a new folder below *folder*; return it."""
    home = folder / f"{server}-{log}"
    home.mkdir()
    for name, data in recorded_parts(server, log).items():
        (home / name).write_bytes(data)
    return home


def recorded_truth(server: str, log: str) -> dict[tuple[int, bytes], tuple[str, int, int]]:
    """What the server answered for every key: (db, key) to (type, length, expiry in ms or -1)."""
    rows = json.loads(_recorded_files()[f"{server}/{log}.json"])
    return {(db, base64.b64decode(key)): (kind, count, expiry) for db, key, kind, count, expiry in rows}


class WalkedKey(NamedTuple):
    """One row of a batch's keys."""

    key: bytes
    slot: int
    tag: tuple[int, int]
    share: int
    db: int
    offset: int


class WalkedCommand(NamedTuple):
    offset: int
    size: int
    name: bytes
    argc: int
    db: int
    time_s: int
    keys: tuple[WalkedKey, ...]


@dataclass(slots=True)
class Walked:
    """All results of a walk over a file."""

    commands: list[WalkedCommand] = field(default_factory=list)
    tail: Tail | None = None
    error: DecodeError | None = None

    def outcome(self) -> tuple[object, ...]:
        """All of it as a value that can be compared."""
        return self.commands, self.tail, str(self.error)


def walk_log(data: bytes, *, piece: int = 1 << 20, rows: int = 65_536) -> Walked:
    walker = AofWalker("log", batch_rows=rows)
    rows, at = Walked(), 0
    try:
        while not walker.done:
            ahead = min(walker.skippable(), max(len(data) - at, 0))
            walker.skipped(ahead)
            at += ahead
            room = walker.room()
            count = min(len(room), piece, max(len(data) - at, 0))
            room[:count] = data[at : at + count]
            at += count
            walker.filled(count)
            for batch in walker.batches():
                rows.commands += _rows(batch, walker.names)
    except DecodeError as error:
        rows.error = error.with_traceback(
            None
        )  # its frames would keep the walker's buffers until a full garbage collection
        return rows
    rows.tail = walker.tail
    return rows


def _rows(batch, names):  # type: ignore[no-untyped-def]
    keys = batch.keys
    for at in range(len(batch)):
        walked = tuple(
            WalkedKey(
                keys.key(row),
                int(keys.slot[row]),
                (int(keys.tag_start[row]), int(keys.tag_length[row])),
                int(keys.serialized_bytes[row]),
                int(keys.db[row]),
                int(keys.offset[row]),
            )
            for row in range(batch.first_key[at], batch.first_key[at + 1])
        )
        numbers = (int(column[at]) for column in (batch.argc, batch.db, batch.time_s))
        yield WalkedCommand(int(batch.offset[at]), int(batch.size[at]), names[batch.command[at]], *numbers, walked)


def replay(keyspace: Keyspace, parts: dict[str, bytes]) -> Keyspace:
    """Run the files of a log, in the order of *parts*, on *keyspace*."""
    for name, data in parts.items():
        keyspace.begin_file()
        if data.startswith((b"REDIS", b"VALKEY")):
            skimmer = RdbSkimmer(name)
            for batch in batches_of(skimmer, data):
                writer = ValueWriter(skimmer.head, RESP, source=name)
                file = np.frombuffer(bytearray(data), np.uint8)
                keyspace.add_base(writer.pieces(file, batch, np.arange(len(batch))))
            data = data[len(data) - skimmer.trailing_bytes :]
        reader = CommandReader(name)
        reader.feed(data)
        for command in reader.commands():
            keyspace.apply(command.arguments)
    return keyspace


def certain(keyspace: Keyspace, truth: dict[tuple[int, bytes], tuple[str, int, int]]) -> bool:
    """Whether *keyspace* has the keys of *truth* as they are there; only sparse HyperLogLogs may be uncertain."""
    rows = list(keyspace.rows())
    unsure = {(row.db, row.key) for row in rows if row.type is None}
    held = {(row.db, row.key): (row.type, row.elements, row.expire_at_ms) for row in rows if row.type is not None}
    return (
        held == {place: facts for place, facts in truth.items() if place not in unsure}
        and unsure <= set(truth)
        and set(keyspace.unknown) <= {"pfadd", "pfmerge"}
    )
