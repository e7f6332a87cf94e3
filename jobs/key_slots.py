"""How are keys and bytes spread over the 16384 slots?

Reads RDB dumps, append-only logs and key lists; writes silver/slot_load, silver/sources, silver/snapshots, gold/node_load, gold/big_keys,
gold/hash_tags, gold/key_prefixes, gold/ttl_buckets, bronze/bad_records and, when asked, bronze/keys; for logs also silver/write_load,
gold/command_load, gold/write_keys, gold/log_savings and gold/uncertain_keys; prints a summary and writes an HTML report.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotscope.requests.key_slots import Request
from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Flag, Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.reports.keyspace.report import KeyspaceReport
    from slotscope.runtime.settings import Settings


def run(spark: SparkSession, request: Request, settings: Settings) -> KeyspaceReport:
    """Read the inputs of *request*, replace its snapshot in all tables, and return what they now say."""
    from slotscope.pipelines.key_snapshot import KeySnapshot
    from slotscope.reports.keyspace.tables import load_report

    snapshot = KeySnapshot.read(spark, request, settings)
    snapshot.write(spark)
    return load_report(spark, request.root, request.snapshot)


def command(
    *,
    rdb: Paths = (),
    aof: Paths = (),
    keys: Paths = (),
    topology: str | None = None,
    snapshot: str = "current",
    dump_node: Paths = (),
    key_format: str | None = None,
    key_column: str | None = None,
    size_column: str | None = None,
    ops_column: str | None = None,
    quoted: bool | None = None,
    no_crc: Flag = False,
    no_split: Flag = False,
    keep_keys: Flag = False,
    deep: Flag = False,
    no_replay: Flag = False,
    no_load_truncated: Flag = False,
    appendfsync: str | None = None,
    info: Paths = (),
    no_memory: Flag = False,
    allocator: str = "auto",
    list_compress_depth: int = 0,
    loaded: Flag = False,
    server: str | None = None,
    top: int | None = None,
    top_per_slot: int | None = None,
    separators: str | None = None,
    prefix_depth: int | None = None,
    html: str | None = None,
    common: Common,
) -> int | None:
    """Show where the load of a cluster is: keys and bytes per slot, node, key, hash tag and prefix.

    Parameters
    ----------
    rdb
        RDB dumps: files, globs, folders or URIs; gzip and zstd are recognised.
    aof
        Append-only logs: folders with a manifest (appendonlydir, or what holds it), manifests, or single files.
    keys
        Key lists: text (one key a line), CSV, JSON lines, Parquet files or a Delta table, with optional size and ops columns.
    topology
        CLUSTER NODES, nodes.conf, CLUSTER SHARDS or CLUSTER SLOTS output; without it slots have no owners.
    snapshot
        Name of the snapshot; what the tables hold of it is replaced.
    dump_node
        FILE=NODE: whose dump FILE (a path or its last part) is; NODE is an id or host:port. Default: seen from its keys.
    key_format
        text, csv, jsonl, parquet or delta. Default: by the file's name.
    key_column
        Column of the keys. Default: key, key_base64 or the only one.
    size_column
        Column of sizes in bytes. Default: the first of serialized_bytes, size, bytes, memory_bytes.
    ops_column
        Column of operation counts. Default: ops.
    quoted
        Text lines are all quoted as redis-cli --quoted-input takes them (or, with --no-quoted, none is). Default: seen from the line.
    no_crc
        Do not check the CRC64 of dumps.
    no_split
        Read each dump in one task.
    keep_keys
        Also write every key to bronze/keys.
    deep
        Decode every value of the dumps, not only its header, and say which are not what they claim (slower).
    no_replay
        Do not replay logs: only what they write is counted, not which keys live.
    no_load_truncated
        A log whose last file a crash has cut is an error, as with the server's aof-load-truncated no.
    appendfsync
        always, everysec or no: what the servers of the logs have, for what a crash may lose. Default: all three are told.
    info
        INFO replies of the servers, for what a crash would lose: JSON lines (slotscope collect --persistence) or a whole reply as text.
    no_memory
        Do not estimate what keys take in the servers' memory.
    allocator
        What the servers allocate with: jemalloc (their own build), jemalloc-16 (of Linux distributions) or libc, as INFO's
        mem_allocator says. Default: jemalloc-16 for Redis, libc for Valkey.
    list_compress_depth
        The servers' list-compress-depth. Default: 0, or seen from lists in dumps that are not compressed.
    loaded
        The servers were restarted, or are replicas, and their keys are as they loaded them from a file.
    server
        Whose layout in memory keys are measured by: redis-8.0, valkey-9.1, … Default: that of the server that the dump names, or of
        the nearest version that is known.
    top
        Keys listed for the cluster and for each node and type.
    top_per_slot
        Keys listed for each slot.
    separators
        Characters that end a prefix.
    prefix_depth
        Number of separators that the longest prefix has.
    html
        Where the HTML report goes. Default: ROOT/reports/SNAPSHOT.html.
    """
    request = Request(
        root=common.root, snapshot=snapshot, rdb=rdb, aof=aof, keys=keys, topology=topology, dump_node=dump_node, key_format=key_format,
        key_column=key_column, size_column=size_column, ops_column=ops_column, quoted=quoted, check_crc=not no_crc,
        split=not no_split, keep_keys=keep_keys, deep=deep, permissive=common.mode == "permissive",
        replay=not no_replay, load_truncated=not no_load_truncated, appendfsync=appendfsync,
        info=info, now_ms=time.time_ns() // 1_000_000,
        memory=not no_memory, allocator=allocator, list_compress_depth=list_compress_depth,
        loaded=loaded, server=server,
    )  # fmt: skip
    settings = common.settings(top=top, top_per_slot=top_per_slot, separators=separators, prefix_depth=prefix_depth)
    from slotscope.sources.inputs import check_request

    check_request(request)
    report = run(common.session("key-slots"), request, settings)
    from slotscope.reports.delivery import deliver_keyspace

    deliver_keyspace(report, root=common.root, html=html, stream=sys.stdout)
    return cli.PARTIAL if report.bad_records else None


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
