"""Digests of decoded values, against what real servers answered."""

from __future__ import annotations

import base64
import json
import lzma
from hashlib import sha1
from random import Random

import pytest

from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.values import Field, ModuleValue, Record, _attributes, decode_record, string_end
from tests.benches.servers import redis_binary, running, valkey_binary
from tests.builders.debug_digest import (
    REDIS_70,
    REDIS_72,
    REDIS_74,
    DigestRules,
    KeyspaceDigest,
    fpconv_score,
    printf_score,
    rules_of,
    value_digest,
)
from tests.builders.rdb_writing import read_rows
from tests.conftest import DATA

pytestmark = pytest.mark.servers

SERVERS = {"redis-7.0": redis_binary, "valkey-9.1": valkey_binary}


def recorded(server: str) -> list[dict]:
    """Keys as they stood in dumps of *server*, and its answers."""
    with lzma.open(DATA / "digests" / f"{server}.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("server", SERVERS)
def test_the_value_of_every_recorded_key_has_the_digest_that_its_server_told(server):
    """DEBUG DIGEST-VALUE, for every type and encoding that the server wrote."""
    told = recorded(server)
    for key in told:
        record = decode_record(base64.b64decode(key["record"]), key["dialect"])
        digest = value_digest(record, rules_of(RdbHead(key["dialect"], key["version"])))
        assert digest is not None
        assert digest.hex() == key["digest"], (record.key, key["type"], key["encoding"])

    assert {key["type"] for key in told} == {"string", "list", "set", "zset", "hash", "stream"}


@pytest.mark.parametrize("server", SERVERS)
def test_the_bytes_of_every_recorded_value_are_those_of_its_dump(server):
    """DUMP is type, value, version and CRC64 (`createDumpPayload`): the place of the value in the record is right."""
    keys = recorded(server)
    assert keys
    for key in keys:
        record = base64.b64decode(key["record"])
        at = _attributes(record)[0]
        payload = record[at : at + 1] + record[string_end(record, at + 1) :] + key["version"].to_bytes(2, "little")
        payload += crc64(payload).to_bytes(8, "little")
        assert sha1(payload, usedforsecurity=False).hexdigest() == key["dump_sha1"]


@pytest.mark.parametrize(
    ("server", "dump"), [("redis-7.0", "redis-7.0/dump"), ("valkey-9.1", "valkey-9.1/before/node-7001")]
)
def test_the_digest_of_a_dump_is_that_of_the_server_that_loads_it(server, dump):
    """DEBUG DIGEST over several databases, and DEBUG DIGEST-VALUE of each key."""
    binary = SERVERS[server]()
    if binary is None:
        pytest.skip(f"{server}: the server is not installed")
    data = (DATA / f"{dump}.rdb").read_bytes()
    skim, rows = read_rows(data)
    rules = rules_of(skim.head)
    whole = KeyspaceDigest(rules)
    for db, record in rows:
        whole.add(db, record)

    with running(binary, files={"dump.rdb": data}, enable_debug_command="yes") as loaded:
        assert loaded.call("DEBUG", "DIGEST").decode() == whole.result().hex()
        for db in {db for db, _ in rows}:
            records = [record for found, record in rows if found == db]
            answers = loaded.ask([["DEBUG", "DIGEST-VALUE", record.key] for record in records], db)
            assert [answer[0].decode() for answer in answers] == [value_digest(r, rules).hex() for r in records]


@pytest.mark.parametrize(("server", "rules"), [("redis-7.0", REDIS_70), ("valkey-9.1", REDIS_72)])
def test_scores_are_written_as_the_server_writes_them(server, rules: DigestRules):
    """Random doubles of every size, powers of two, the smallest and the largest; the digest holds their text."""
    binary = SERVERS[server]()
    if binary is None:
        pytest.skip(f"{server}: the server is not installed")
    random = Random(7)
    scores = [random.uniform(-1, 1) * 10.0 ** random.randint(-300, 300) for _ in range(1500)]
    scores += [random.random() * 10 ** random.randint(-8, 20) for _ in range(1500)]
    scores += [2.0**power for power in range(-1074, 1024, 7)] + [5e-324, 1.7976931348623157e308, 0.1, -1e17, 3e20]
    with running(binary, enable_debug_command="yes") as started:
        started.ask([["ZADD", f"z{number}", repr(score), "m"] for number, score in enumerate(scores)])
        answers = started.ask([["DEBUG", "DIGEST-VALUE", f"z{number}"] for number in range(len(scores))])

    ours = [value_digest(Record(b"z", "zset", [(b"m", score)], -1), rules).hex() for score in scores]
    assert [answer[0].decode() for answer in answers] == ours


def test_scores_have_the_two_forms_of_old_and_new_servers():
    """`%.17g` and fpconv_dtoa."""
    scores = [0.1, 1e-7, 1.2345678901234568e17, float("-inf"), -0.0, 3e20]

    assert [printf_score(score) for score in scores] == [
        "0.10000000000000001",
        "9.9999999999999995e-08",
        "1.2345678901234568e+17",
        "-inf",
        "-0",
        "3e+20",
    ]
    assert [fpconv_score(score) for score in scores] == [
        "0.1",
        "1e-7",
        "123456789012345680",
        "-inf",
        "-0",
        "3e+20",
    ]


def test_what_a_digest_knows_and_what_not():
    """Redis 7.4 marks a field that expires; a key's expiry counts as such, not its time; a module's value is not known."""
    lasting, fading = (Record(b"h", "hash", [Field(b"f", b"v", when)], -1) for when in (-1, 5))
    soon, late = (Record(b"k", "string", b"v", when) for when in (5, 6))
    module = Record(b"m", "module", ModuleValue(b"\1\0"), -1)
    whole = KeyspaceDigest(REDIS_72)
    whole.add(0, module)

    assert value_digest(lasting, REDIS_72) == value_digest(fading, REDIS_72)
    assert value_digest(lasting, REDIS_74) != value_digest(fading, REDIS_74)
    assert (
        value_digest(soon, REDIS_72)
        == value_digest(late, REDIS_72)
        != value_digest(soon._replace(expire_at_ms=-1), REDIS_72)
    )
    assert value_digest(module, REDIS_72) is None
    assert whole.unknown == 1
    assert rules_of(RdbHead("REDIS", 12)) == REDIS_74
    assert rules_of(RdbHead("REDIS", 11, "valkey 8.1.0")) == rules_of(RdbHead("VALKEY", 80)) == REDIS_72
