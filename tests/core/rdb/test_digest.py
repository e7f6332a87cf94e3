"""Digests of exported values, against what real servers answered."""

from __future__ import annotations

import base64
import json
import lzma
from hashlib import sha1

import numpy as np
import pytest

from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.skim_state import grammar_array
from cluster_core.rdb.walk_records import find_value
from tests.builders import rdb_builder as build
from tests.builders.debug_digest import value_digest
from tests.builders.rdb_values import read_rows
from tests.conftest import DATA

SERVERS = ("redis-7.0", "valkey-9.1")
MAGIC = {"REDIS": "REDIS0012", "VALKEY": "VALKEY080"}


def recorded(server: str) -> list[dict]:
    """Keys as they stood in dumps of *server*, and its answers."""
    with lzma.open(DATA / "digests" / f"{server}.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("server", SERVERS)
def test_each_recorded_value_has_the_digest_that_its_server_replied(server):
    """DEBUG DIGEST-VALUE, for every type and encoding; Valkey writes scores in another form."""
    keys = [key for key in recorded(server) if server == "redis-7.0" or key["type"] != "zset"]
    for key in keys:
        dump = build.rdb(build.select(0), base64.b64decode(key["record"]), magic=MAGIC[key["dialect"]])
        ((_, record),) = read_rows(dump)[1]
        digest = value_digest(record)
        assert digest is not None
        assert digest.hex() == key["digest"], (record.key, key["type"], key["encoding"])

    assert {key["type"] for key in keys} >= {"string", "list", "set", "hash", "stream"}


@pytest.mark.parametrize("server", SERVERS)
def test_the_bytes_of_every_recorded_value_are_those_of_its_dump(server):
    """DUMP is type, value, version and CRC64 (`createDumpPayload`): the place of the value in the record is right."""
    keys = recorded(server)
    assert keys
    for key in keys:
        record = base64.b64decode(key["record"])
        grammar = grammar_array(key["dialect"], 0, None)
        kind, at = find_value(np.frombuffer(bytearray(record), np.uint8), 0, len(record), grammar)
        payload = bytes((kind,)) + record[at:] + key["version"].to_bytes(2, "little")
        payload += crc64(payload).to_bytes(8, "little")
        assert sha1(payload, usedforsecurity=False).hexdigest() == key["dump_sha1"]
