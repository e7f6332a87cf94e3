"""The job split-rdb: dumps cut by slots, and loaded by real servers."""

from __future__ import annotations

import json

import pytest

from cluster_core.errors import DecodeError
from cluster_core.slots.key_slot import key_slot
from jobs.rebalance_plan import Request as PlanRequest
from jobs.rebalance_plan import run as make_plan
from jobs.split_rdb import Request
from schemas.rebalance import REBALANCE_SLOTS
from slotscope.pipelines.keys.split import MANIFEST, split_dumps
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import OK
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import slotscope
from tests.benches.servers import redis_binary, running, valkey_binary
from tests.builders import rdb_builder as build
from tests.builders.debug_digest import value_digest
from tests.builders.rdb_values import read_rows as rows_of_dump
from tests.builders.rebalance_tables import node_id, write_snapshot
from tests.conftest import DATA

THIRDS = [slot * 3 // 16384 for slot in range(16384)]
BEFORE = sorted((DATA / "valkey-9.1" / "before").glob("*.rdb"))
ZOO = DATA / "redis-7.0" / "dump.rdb"


@pytest.fixture
def nodes(tmp_path):
    """A topology of three masters with a third of the slots each."""
    path = tmp_path / "nodes.txt"
    ranges = ("0-5461", "5462-10922", "10923-16383")
    path.write_text(
        "".join(
            f"{node_id(number)} 10.0.0.{number}:7000@17000 master - 0 0 {number + 1} connected {held}\n"
            for number, held in enumerate(ranges)
        )
    )
    return path


def split(tmp_path, *dumps, **words):
    """Cut *dumps* into tmp_path/out."""
    return split_dumps(
        Request(
            root=str(tmp_path),
            rdb=[str(d) for d in dumps],
            out=str(tmp_path / "out"),
            **words,
        )
    )


def parts_of(tmp_path) -> dict[str, bytes]:
    """Name and bytes of every part."""
    return {path.stem: path.read_bytes() for path in sorted((tmp_path / "out").glob("*.rdb"))}


def rows_in(*files: bytes):
    """Every key of *files*, in an order of its own."""
    return sorted((row for data in files for row in rows_of_dump(data)[1]), key=lambda row: (row[0], row[1].key))


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A root with a plan that moves slots of the first of three masters, and the planned owner of each slot."""
    root = tmp_path_factory.mktemp("planned")
    write_snapshot(root, THIRDS, dict.fromkeys(range(60), 60000))
    made = make_plan(
        PlanRequest(root=str(root), snapshot=("current",)),
        now_ms=1_795_000_000_000,
    )
    rows = read_rows(str(root), REBALANCE_SLOTS, plan_id=made.made.stored.plan_id)
    return root, made.made.stored.plan_id, {row["slot"]: row["planned_owner"] for row in rows}


@pytest.mark.long
def test_each_part_holds_the_keys_of_its_planned_master_and_all_together_hold_all(planned, tmp_path, capsys):
    """`--plan ID` over the dumps of a whole cluster: values and expiries."""
    root, plan_id, owner_of = planned
    assert any(owner_of[slot] != node_id(THIRDS[slot]) for slot in range(16384))

    assert slotscope("split-rdb", "--root", root, "--plan", plan_id, "--rdb", *BEFORE, "--out", tmp_path / "out") == OK
    parts = parts_of(tmp_path)
    assert set(parts) == {node_id(number) for number in range(3)}
    assert rows_in(*parts.values()) == rows_in(*(path.read_bytes() for path in BEFORE))
    for owner, data in parts.items():
        skim, rows = rows_of_dump(data)
        assert {owner_of[key_slot(record.key)] for _, record in rows} == {owner}
        assert set(skim.aux) == {"valkey-ver", "redis-bits", "ctime", "aof-base"}
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert manifest["plan"] == plan_id
    assert {file["owner"]: (file["bytes"], file["keys"], file["expires"]) for file in manifest["files"]} == {
        name: (len(data), len(rows), sum(record.expire_at_ms >= 0 for _, record in rows))
        for name, data in parts.items()
        for _, rows in [rows_of_dump(data)]
    }
    assert "3 dumps, 6,002 keys: 3 parts after plan" in capsys.readouterr().out


@pytest.mark.servers
@pytest.mark.parametrize("server", ["redis", "valkey"])
def test_real_servers_load_the_parts_to_the_same_data(server, nodes, tmp_path):
    """Every key's DEBUG DIGEST-VALUE; function libraries in every part; a cluster node takes its part with the slots."""
    binary = redis_binary() if server == "redis" else valkey_binary()
    if binary is None:
        pytest.skip(f"{server}-server is not installed")
    dumps = [ZOO] if server == "redis" else BEFORE
    split(tmp_path, *dumps, topology=str(nodes))

    told = {}
    for data in parts_of(tmp_path).values():
        files = {"dump.rdb": data}
        with running(binary, files=files, cluster=server == "valkey", enable_debug_command="yes") as loaded:
            for db in [0] if server == "valkey" else range(16):
                keys = loaded.call("KEYS", "*", db=db)
                digests = loaded.ask([["DEBUG", "DIGEST-VALUE", key] for key in keys], db)
                assert not {(db, key) for key in keys} & set(told)
                told |= {(db, key): answer[0].decode() for key, answer in zip(keys, digests, strict=True)}
            assert len(loaded.call("FUNCTION", "LIST")) == (1 if server == "redis" else 0)
    whole = [rows_of_dump(path.read_bytes()) for path in dumps]
    records = {(db, record.key): record for _, rows in whole for db, record in rows}
    assert set(told) == set(records)
    known = [place for place, record in records.items() if server == "redis" or record.type != "zset"]
    assert {place: told[place] for place in known} == {place: value_digest(records[place]).hex() for place in known}


def test_what_is_no_key_goes_to_all_parts_or_to_none_and_is_named(nodes, tmp_path):
    """Functions and what modules keep beside keys: to all.  Replication ids and slot imports belong to the whole dump."""
    function = b"\xf5" + build.string("#!lua name=one\nredis.register_function('f', function() end)")
    module = b"\xf7" + build.length(77) + b"\x02\x02" + b"\x05" + build.string("kept") + b"\0"
    slot_import = b"\xf3" + build.string("job") + build.length(1) + build.length(3) + build.length(5)
    data = build.rdb(
        build.aux("repl-id", "a" * 40), build.aux("ctime", 1234567890), function, module, slot_import, build.select(2),
        build.key("foo", 0, build.string("bar"), freq=9), module, magic="VALKEY080",
    )  # fmt: skip
    (tmp_path / "d.rdb").write_bytes(data)
    manifest = split(tmp_path, tmp_path / "d.rdb", topology=str(nodes))

    assert manifest["sources"][0]["left_out"] == {"aux field repl-id": 1, "slot import": 1}
    for name, part in parts_of(tmp_path).items():
        skim, rows = rows_of_dump(part)
        assert (skim.function_count, part.count(module)) == (1, 1)
        assert skim.aux == {"ctime": "1234567890", "aof-base": "0"}
        assert [(db, record.key, record.freq) for db, record in rows] == (
            [(2, b"foo", 9)] if name == node_id(2) else []
        )


def dump(*keys: bytes, magic: str = "REDIS0011", before: bytes = b"") -> bytes:
    """A dump of a few strings."""
    return build.rdb(before, build.select(0), *(build.key(key, 0, build.string("v")) for key in keys), magic=magic)


REPLID = build.aux("repl-id", "ab" * 20)
LIBRARY = b"\xf5" + build.string("#!lua name=one\n1")
OTHER_LIBRARY = b"\xf5" + build.string("#!lua name=one\n2")
REFUSED = {
    "two dumps of one shard": ([dump(b"a", before=REPLID), dump(b"b", before=REPLID)], "0.rdb and .*1.rdb are dumps of one shard"),
    "two dialects": ([dump(b"a"), dump(b"b", magic="VALKEY080")], "no server reads both"),
    "two libraries of one name": ([dump(b"a", before=LIBRARY), dump(b"b", before=OTHER_LIBRARY)], "different libraries of the name one"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_dumps_that_make_no_set_of_parts_are_refused_before_anything_is_written(case, nodes, tmp_path):
    dumps, reason = REFUSED[case]
    for number, data in enumerate(dumps):
        (tmp_path / f"{number}.rdb").write_bytes(data)
    with pytest.raises(InputError, match=reason):
        split(tmp_path, *(tmp_path / f"{number}.rdb" for number in range(len(dumps))), topology=str(nodes))
    assert not (tmp_path / "out").exists()


def test_dumps_of_one_slot_with_different_keys_are_joined(nodes, tmp_path):
    """A slot on its way from one master to the other has keys in both; the library that both hold is there once."""
    for name, key in (("a", b"{x}1"), ("b", b"{x}2")):
        (tmp_path / f"{name}.rdb").write_bytes(dump(key, before=LIBRARY))
    split(tmp_path, tmp_path / "a.rdb", tmp_path / "b.rdb", topology=str(nodes))
    (part,) = [data for data in parts_of(tmp_path).values() if rows_of_dump(data)[1]]

    assert [record.key for _, record in rows_of_dump(part)[1]] == [b"{x}1", b"{x}2"]
    assert rows_of_dump(part)[0].function_count == 1


def test_a_damaged_dump_is_not_cut(nodes, tmp_path):
    (tmp_path / "cut.rdb").write_bytes(BEFORE[0].read_bytes()[:50_000])

    with pytest.raises(DecodeError, match=r"cut\.rdb: offset 50000: "):
        split(tmp_path, tmp_path / "cut.rdb", topology=str(nodes))
    assert not (tmp_path / "out").exists()
