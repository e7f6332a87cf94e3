"""Real dumps of real servers: every key as its server described it."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from tests.builders.rdb_rows import skim_all

DATA = Path(__file__).parents[2] / "data"
DUMPS = sorted(path.relative_to(DATA) for place in ("*/*.rdb", "*/*/*.rdb") for path in DATA.glob(place))


@pytest.mark.parametrize("dump", DUMPS, ids=str)
def test_every_key_equals_its_servers_answer(dump: Path):
    path = DATA / dump
    rows, skimmer, error = skim_all(path.read_bytes())
    records = {}
    with gzip.open(path.with_name(f"keys-{path.stem}.jsonl.gz"), "rt") as lines:
        for line in lines:
            record = json.loads(line)
            records[record["db"], base64.b64decode(record["key"])] = record

    assert error is None
    assert skimmer.crc_ok
    assert {(db, key) for db, key, *_ in rows} == set(records)
    for db, key, slot, _, kind, encoding, elements, _, expire, idle, freq, *_ in rows:
        record = records[db, key]
        assert (slot, kind, encoding, elements, expire) == (
            record["slot"],
            record["type"],
            record["encoding"],
            record["count"],
            record["pexpiretime"],
        )
        if "idle" in record:
            assert 0 <= idle - record["idle"] <= 5
        assert freq == record.get("freq", -1)


def test_there_are_recorded_dumps_of_both_servers():
    assert {dump.parts[0].split("-")[0] for dump in DUMPS} == {"redis", "valkey"}
