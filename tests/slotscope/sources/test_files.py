"""Files by path, glob and URI, plain and compressed."""

from __future__ import annotations

import gzip
import os

import pyarrow as pa
import pytest

from cluster_core.errors import DecodeError
from slotscope.sources.files import expand, open_stream
from slotscope.sources.folder_kinds import CAPTURES, POLLS

DATA = os.urandom(300_000) + bytes(3_000_000)


def read_all(path, start=0):
    stream = open_stream(str(path), start=start)
    room = memoryview(bytearray(100_000))
    result = bytearray()
    while count := stream.readinto(room):
        result += room[:count]
    stream.close()
    return bytes(result)


def compress(data, codec):
    return pa.compress(data, codec=codec, asbytes=True)


@pytest.mark.parametrize(
    "content",
    [
        DATA,
        gzip.compress(DATA, mtime=0),
        gzip.compress(DATA[:7], mtime=0) + gzip.compress(DATA[7:], mtime=0),
        compress(DATA, "zstd"),
    ],
    ids=["plain", "gzip", "gzip members", "zstd"],
)
def test_a_file_is_read_whole_and_from_any_place_however_it_is_compressed(tmp_path, content):
    path = tmp_path / "named-like-nothing"
    path.write_bytes(content)

    assert read_all(path) == DATA
    assert read_all(path, start=299_999) == DATA[299_999:]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_data_that_is_cut_short_is_an_error_with_its_place(tmp_path, codec):
    path = tmp_path / "cut"
    path.write_bytes((gzip.compress(DATA) if codec == "gzip" else compress(DATA, codec))[:-100])

    with pytest.raises(DecodeError, match=rf"cut: offset \d+: {codec} data is damaged or cut short"):
        read_all(path)


def test_globs_folders_and_repeats_give_each_file_once(tmp_path):
    for name in ("b.rdb", "a.rdb", ".hidden", "_temporary"):
        (tmp_path / name).write_bytes(b"x")

    files = expand([str(tmp_path), str(tmp_path / "*.rdb"), str(tmp_path / "a.rdb")])

    assert [os.path.basename(file.path) for file in files] == ["a.rdb", "b.rdb"]
    assert [file.size for file in files] == [1, 1]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_folder_without_files_of_a_kind_is_searched_below(tmp_path, prefix):
    """A landing of `collect` has polls below cluster and point, beside a list of gaps."""
    for name in ("c/p/gaps.jsonl", "c/p/polls/1.jsonl.gz", "c/q/polls/2.jsonl", "c/q/.hidden/3.jsonl", "c/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    def names(folder: str) -> list[str]:
        return [os.path.basename(file.path) for file in expand([f"{prefix}{tmp_path}{folder}"], POLLS)]

    assert names("") == ["1.jsonl.gz", "2.jsonl"]
    (tmp_path / "c" / "4.jsonl").write_bytes(b"x")
    assert names("/c") == ["4.jsonl"]
    with pytest.raises(DecodeError, match="the directory holds no captures"):
        expand([f"{prefix}{tmp_path}"], CAPTURES)


def test_a_name_with_glob_characters_that_exists_is_that_file(tmp_path):
    (tmp_path / "[1].rdb").write_bytes(b"x")

    assert [os.path.basename(file.path) for file in expand([str(tmp_path / "[1].rdb")])] == ["[1].rdb"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.rdb", "no such file"), ("*.rdb", "no file matches this pattern"), ("", "the directory holds no files")],
)
def test_a_missing_file_is_named(tmp_path, name, reason):
    with pytest.raises(DecodeError, match=reason) as caught:
        expand([str(tmp_path / name) if name else str(tmp_path)])

    assert caught.value.source.startswith(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_without_permission_is_named(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)

    with pytest.raises(DecodeError, match="permission denied"):
        expand([str(closed)])


def test_uris_are_opened_by_their_file_system(tmp_path):
    (tmp_path / "a.rdb").write_bytes(DATA)

    files = expand([f"file://{tmp_path}/*.rdb"])

    assert [file.size for file in files] == [len(DATA)]
    assert read_all(files[0].path) == DATA
