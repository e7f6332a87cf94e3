"""Values as DUMP answers them, put into a file."""

from __future__ import annotations

from cluster_core.rdb.encoding import Target
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.values import decode_record
from cluster_core.rdb.writer import RdbWriter, target_of_dump
from tests.builders.rdb_rows import batches_of

DUMPED = b"\x00\x05hello"


def test_the_version_in_a_payload_says_which_file_it_fits_in():
    """Valkey 9 counts from 80 on; all below is Redis, and Valkey before."""
    assert target_of_dump(DUMPED + b"\x0b\x00" + bytes(8)) == Target("REDIS", 11)
    assert target_of_dump(DUMPED + b"\x50\x00" + bytes(8)) == Target("VALKEY", 80)


def test_a_dumped_value_is_a_record_of_a_file():
    """Its key and expiry before it, its version and checksum gone."""
    payload = DUMPED + b"\x0b\x00" + bytes(8)
    writer = RdbWriter(target_of_dump(payload))
    file = writer.head() + writer.database(0) + writer.dumped(b"greeting", payload, 77) + writer.end()
    (batch,) = batches_of(RdbSkimmer("file"), file)
    begin = int(batch.offset[0])
    record = decode_record(file[begin : begin + int(batch.serialized_bytes[0])], "REDIS")

    assert (record.key, record.type, record.value, record.expire_at_ms) == (b"greeting", "string", b"hello", 77)
