"""The manifest of a multi-part append-only log (`aofLoadManifestFromFile`)."""

from __future__ import annotations

import pytest

from cluster_core.errors import DecodeError
from cluster_core.formats.aof.manifest import AofPart, read_manifest
from tests.builders.aof_logs import LOGS, SERVERS, recorded_parts


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("log", LOGS)
def test_a_recorded_manifest_names_base_and_increments_in_order(server, log):
    """A rewrite that was aborted leaves two increments."""
    parts = recorded_parts(server, log)

    manifest = read_manifest(parts["appendonly.aof.manifest"])

    assert [part.name for part in manifest.parts()] == sorted(name for name in parts if not name.endswith("manifest"))
    assert manifest.history == ()


def test_comments_other_fields_and_quoted_names_are_understood():
    """Names with spaces are quoted (`sdssplitargs`), fields of later versions passed over, history is no part of the log."""
    text = b'# note\nfile "a b.base.rdb" seq 3 type b later 1\r\nfile x.2 seq 2 type h\nFILE x.4 SEQ 4 TYPE i\n'

    manifest = read_manifest(text)

    assert manifest.parts() == (AofPart("a b.base.rdb", 3), AofPart("x.4", 4))
    assert manifest.history == (AofPart("x.2", 2),)


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        (b"", 0, "names no file"),
        (b"# only a comment\n", 0, "names no file"),
        (b"file ../../etc/passwd seq 1 type i\n", 0, "not a path"),
        (b"file /etc/passwd seq 1 type i\n", 0, "not a path"),
        (b'file "..\\x2fx" seq 1 type i\n', 0, "not a path"),
        (b"file .. seq 1 type i\n", 0, "not a path"),
        (b"file a seq 1 type b\nfile b seq 2 type b\n", 20, "second base"),
        (b"file a seq 2 type i\nfile b seq 2 type i\n", 20, "must rise"),
        (b"file a seq 1 type i\nfile a seq 2 type i\n", 0, "named twice"),
        (b"file a seq one type i\n", 0, "sequence number"),
        (b"file a seq 99999999999999999999 type i\n", 0, "sequence number"),
        (b"file a seq 1 type x\n", 0, "b, h or i"),
        (b"file a seq 1\n", 0, "pairs"),
        (b"file a seq 1 type i\n\n", 20, "pairs"),
        (b"file a seq 1 kind i\n", 0, "without type"),
        (b"file " + b"a" * 2000 + b" seq 1 type i\n", 0, "a line of"),
    ],
)
def test_a_manifest_that_a_server_refuses_is_an_error_with_its_line(text, offset, reason):
    """What `aofLoadManifestFromFile` ends the server for; a name never leaves the manifest's folder."""
    with pytest.raises(DecodeError, match=reason) as caught:
        read_manifest(text, source="m")

    assert caught.value.offset == offset
