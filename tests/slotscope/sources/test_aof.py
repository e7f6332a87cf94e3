"""``spark.read.format("redis-aof")`` as a person in a notebook uses it, and how logs are found."""

from __future__ import annotations

import gzip

import pytest

from cluster_core.errors import DecodeError
from slotscope.runtime.failure import describe
from slotscope.sources.aof.data_source import AofDataSource
from slotscope.sources.aof.files import find_logs
from tests.builders.aof_logs import log_of, recorded_log, walk_log


@pytest.fixture(scope="module")
def read(spark):
    spark.dataSource.register(AofDataSource)
    return lambda path, **options: spark.read.format("redis-aof").options(**options).load(str(path))


def test_every_command_is_a_row_with_keys_slots_and_time(read, tmp_path):
    home = recorded_log("redis-7.0", "aof-plain", tmp_path)
    expected = {
        (f"{home}/{path.name}", row.offset): row
        for path in home.glob("*.aof")
        for row in walk_log(path.read_bytes()).commands
    }

    rows = {(row["source"], row["offset"]): row for row in read(home).collect()}

    assert rows.keys() == expected.keys()
    for place, row in rows.items():
        command = expected[place]
        assert row["command"].encode() == command.name
        assert (row["db"], row["words"], row["bytes"]) == (command.db, command.argc, command.size)
        assert [bytes(key) for key in row["keys"]] == [key.key for key in command.keys]
        assert row["slots"] == [key.slot for key in command.keys]
        assert (row["time"] is None) == (command.time_s < 0)
    (seconds,) = read(home).where("time is not null").selectExpr("min(unix_seconds(time))").first()
    assert seconds == min(command.time_s for command in expected.values() if command.time_s >= 0)


def test_a_cut_last_file_ends_where_a_server_ends_it(read, tmp_path):
    """``aof-load-truncated yes`` loads complete commands; ``no``, and a cut before the last file, is an error."""
    home = recorded_log("valkey-9.1", "aof-preamble", tmp_path)
    last, before = home / "appendonly.aof.3.incr.aof", home / "appendonly.aof.2.incr.aof"
    last.write_bytes(last.read_bytes()[:10_000])

    kept = [row.offset + row.bytes for row in read(home).collect() if row.source == str(last)]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own class; what matters is what it says
        read(home, load_truncated="false").count()
    before.write_bytes(before.read_bytes()[:-1])
    with pytest.raises(Exception) as early:  # noqa: PT011 - Spark's own class; what matters is what it says
        read(home).count()

    tail = walk_log(last.read_bytes()).tail
    assert max(kept) == tail.valid_end < 10_000
    assert f"{last}: offset {tail.loaded_end}: the log ends inside" in describe(caught.value).line
    assert f"{before}: offset " in describe(early.value).line


def test_a_damaged_middle_fails_the_query_or_keeps_the_rows_before(read, tmp_path):
    log = tmp_path / "appendonly.aof"
    good = log_of(("SET", "a", "1"), ("SET", "b", "2"))
    log.write_bytes(good + b"+OK\r\n" + good)

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own class; what matters is what it says
        read(log).count()

    assert f"{log}: offset {len(good)}: a command begins with" in describe(caught.value).line
    assert read(log, mode="permissive").count() == 2


def test_a_log_of_one_file_with_an_rdb_preamble_gives_the_commands_after_it(read, tmp_path):
    """Servers before 7.0 wrote dump and commands into one file; gzip is recognised."""
    home = recorded_log("redis-7.0", "aof-preamble", tmp_path)
    base = (home / "appendonly.aof.2.base.rdb").read_bytes()
    log = tmp_path / "appendonly.aof.gz"
    log.write_bytes(gzip.compress(base + log_of(("SELECT", 0), ("DEL", "x"))))

    rows = read(log).orderBy("offset").collect()

    assert [(row["command"], row["offset"]) for row in rows] == [("select", len(base)), ("del", len(base) + 23)]


@pytest.mark.parametrize("name", ["", "data"])
def test_a_folder_is_a_log_by_its_manifest(tmp_path, name):
    """Also the server's own folder above ``appendonlydir``, and the manifest itself."""
    home = recorded_log("redis-7.0", "aof-plain", tmp_path)
    if name:
        (tmp_path / name).mkdir()
        home = home.rename(tmp_path / name / "appendonlydir")
    files = [home / f"appendonly.aof.{part}" for part in ("2.base.aof", "2.incr.aof", "3.incr.aof")]

    for path in (home, home / "appendonly.aof.manifest", *([home.parent] if name else [])):
        (log,) = find_logs([str(path)])

        assert [file.path for file in log.files] == [str(file) for file in files]


def test_another_file_than_a_log_is_reported_with_its_place(tmp_path):
    home = recorded_log("redis-7.0", "aof-plain", tmp_path)
    (home / "appendonly.aof.2.incr.aof").unlink()
    with pytest.raises(DecodeError, match="which is not there"):
        find_logs([str(home)])
    (home / "appendonly.aof.manifest").write_text("file ../x seq 1 type i\n")
    with pytest.raises(DecodeError, match="not a path"):
        find_logs([str(home)])
    (home / "other.manifest").write_text("")
    with pytest.raises(DecodeError, match="2 manifests"):
        find_logs([str(home)])
    with pytest.raises(DecodeError, match="no such file"):
        find_logs([str(tmp_path / "nowhere")])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("")
    with pytest.raises(DecodeError, match="no manifest"):
        find_logs([str(tmp_path / "empty")])
