"""Dumps and captures from an object store, tables and pages into one: ``s3://`` through the commands that a user gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from jobs.main import run
from schemas.bronze import KEYS
from schemas.gold import NODE_LOAD
from schemas.history import NODE_VIEWS
from schemas.rebalance import PLAN_STEPS
from schemas.runs import RUNS
from slotscope.runtime.errors import PlaceError
from slotscope.runtime.storage.delta_files import append_rows, read_rows
from slotscope.runtime.storage.runs import running
from slotscope.sources.aof.files import find_logs
from slotscope.sources.files import exists, expand, open_stream, read_pieces
from slotscope.sources.folder_kinds import DUMPS
from tests.benches.object_store import SECRET, ObjectStore, object_store
from tests.benches.program import Program
from tests.benches.unreliable_store import failing_store, losing_store
from tests.conftest import DATA

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def server():
    for name in ("moto", "flask_cors"):
        pytest.importorskip(name)
    with object_store("dumps", "lake") as store:
        for dump in sorted((DATA / "valkey-9.1" / "before").glob("*.rdb")):
            store.put(f"dumps/nightly/c1/{dump.name}", dump)
        store.put("dumps/nightly/c1/nodes.txt", DATA / "valkey-9.1" / "topology" / "nodes.txt")
        store.put("dumps/nightly/c1/README", Path(__file__))
        for name in ("bus.pcap.gz", "polls.jsonl.gz"):
            store.put(f"dumps/bus/{name}", DATA / "bus-redis-7.0" / name)
        yield store


@pytest.fixture
def store(server, monkeypatch):
    """The server as the environment names it; nothing that a test says of it stays."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server


def names_of(*patterns: str) -> list[str]:
    return [file.path.removeprefix("s3://dumps/nightly/") for file in expand(list(patterns), DUMPS)]


@pytest.mark.parametrize(
    "pattern",
    [
        "s3://dumps/nightly/c1/*.rdb",
        "s3a://dumps/nightly/c1/*.rdb",
        "s3n://dumps/nightly/c1/node-700[1-3].rdb",
        "s3://dumps/*/c1/*.rdb",
        "s3://dumps/nightly/*/node-*.rdb",
        "s3://dumps/**/*.rdb",
        "s3://dumps/nightly/c?/",
        "s3://dumps/nightly/c1",
    ],
)
def test_globs_in_any_part_and_folders_name_the_dumps_alone(store, pattern):
    assert names_of(pattern) == ["c1/node-7001.rdb", "c1/node-7002.rdb", "c1/node-7003.rdb"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("s3://no-such/x.rdb", "no such bucket"),
        ("s3://no-such/*.rdb", "no such bucket"),
        ("s3://dumps/none.rdb", "no such file"),
        ("s3://dumps/*/none*.rdb", "no file matches this pattern"),
        ("s3://dumps/bus", "the directory holds no RDB dumps"),
    ],
)
def test_a_missing_object_is_named(store, pattern, why):
    with pytest.raises(DecodeError, match=why):
        expand([pattern], DUMPS)


def test_a_log_is_found_by_the_folder_of_its_server(store):
    for name, content in (
        ("appendonly.aof.manifest", b"file appendonly.aof.1.incr.aof seq 1 type i\n"),
        ("appendonly.aof.1.incr.aof", b"*1\r\n$4\r\nPING\r\n"),
    ):
        store.client().put_object(Bucket="dumps", Key=f"server/appendonlydir/{name}", Body=content)

    (log,) = find_logs(["s3a://dumps/server"])

    assert log.path == "s3://dumps/server/appendonlydir"
    assert [file.path.rpartition("/")[2] for file in log.files] == ["appendonly.aof.1.incr.aof"]


@pytest.mark.parametrize(
    ("root", "endpoint", "reason"),
    [
        ("s3://lake/r", "http://127.0.0.1:9", "the store at http://127.0.0.1:9 does not answer: check its endpoint"),
        ("s3a://nowhere/r", None, "no such bucket"),
    ],
)
def test_a_store_without_answer_and_a_missing_bucket_are_one_line(store, monkeypatch, root, endpoint, reason):
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)

    with pytest.raises(PlaceError, match=rf"^s3://\w+/r/silver/runs: cannot be read: {reason}"):
        begin(root)


def begin(root: str) -> None:
    with running(root, "key-slots", "a"):
        pass


def test_credentials_that_may_only_read_or_are_unknown_are_refused_before_anything_is_read(store, monkeypatch):
    messages, secrets = [], []
    try:
        for name, secret in (store.add_reader(), ("AKIDOFNOBODY", "guessed-secret")):
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", name)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
            with pytest.raises(PlaceError) as refused:
                begin("s3://lake/r")
            messages.append(str(refused.value))
            secrets.append(secret)
    finally:
        store.ask_everyone(after=1 << 30)

    assert ["access denied: check the credentials" in line for line in messages] == [True, True]
    assert not any(secret in line for secret in secrets for line in messages)


@pytest.mark.spark
def test_dumps_of_a_store_become_tables_and_a_page_in_a_store_without_its_secrets(store, spark, recorded_root):
    there = ["--rdb", "s3a://dumps/nightly/*/*.rdb", "--topology", "s3://dumps/nightly/c1/nodes.txt"]

    code = run(["key-slots", "--root", "s3a://lake/root", "--snapshot", "before", "--quiet", *there])

    assert code == 0
    same = ("node_id", "keys", "serialized_bytes")
    assert _rows("s3://lake/root", same) == _rows(str(recorded_root), same)
    names = store.names("lake")
    assert "root/reports/before.html" in names
    assert [name for name in names if SECRET.encode() in store.read("lake", name)] == []


def _rows(root: str, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
    rows = read_rows(root, NODE_LOAD, columns=columns, order_by="node_id", snapshot_id="before")
    return [tuple(row.values()) for row in rows]


def test_writers_of_one_table_at_a_time_lose_nothing(store):
    root, each = "s3://lake/shared", 6

    def write(writer: int) -> None:
        for number in range(each):
            append_rows(root, PLAN_STEPS, [{"plan_id": f"{writer}", "seq": number}])

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(write, range(2)))

    assert len(read_rows(root, PLAN_STEPS, columns=("seq",))) == 2 * each


@pytest.mark.slow
def test_spark_itself_writes_a_row_a_key_and_reads_captures_of_a_store(store: ObjectStore):
    for arguments in (
        ["key-slots", "--rdb", "s3://dumps/nightly/c1", "--keep-keys", "--snapshot", "keys"],
        ["history", "--pcap", "s3://dumps/bus", "--polls", "s3://dumps/bus/polls*", "--snapshot", "bus"],
    ):
        with Program(*arguments, environment={"SLOTSCOPE_ROOT": "s3://lake/large"}) as job:
            errors = job.messages(600)
        assert job.returncode == 0, errors

    assert len(read_rows("s3://lake/large", KEYS, columns=("slot",), snapshot_id="keys")) == 6002
    assert len(read_rows("s3://lake/large", NODE_VIEWS, columns=("observer",), snapshot_id="bus")) > 0


def test_an_object_shorter_than_the_text_of_a_refusal_is_read_again(store, monkeypatch):
    store.client().put_object(Bucket="dumps", Key="short/word", Body=b"word")
    with failing_store(store, every=2) as failing:
        monkeypatch.setenv("AWS_ENDPOINT_URL", failing.endpoint)

        assert [b"".join(read_pieces("s3://dumps/short/word", 3)) for _ in range(3)] == [b"word"] * 3
        assert failing.troubles() > 3


def test_a_failing_store_is_not_a_damaged_or_missing_file(store, monkeypatch):
    with failing_store(store, every=1) as failing:
        monkeypatch.setenv("AWS_ENDPOINT_URL", failing.endpoint)

        for ask in (exists, open_stream):
            with pytest.raises(PlaceError, match=r"s3://dumps/bus/bus\.pcap\.gz: cannot be read"):
                ask("s3://dumps/bus/bus.pcap.gz")


@pytest.mark.parametrize("commit", [1, *(pytest.param(other, marks=pytest.mark.slow) for other in (0, 2))])
def test_a_commit_with_a_lost_answer_leaves_rows_once(server, monkeypatch, commit):
    """The commit that makes the table, and those that replace a snapshot or add one."""
    root = f"s3://lake/lost-{commit}"
    with losing_store(server, f"node_load/_delta_log/{commit:020}.json") as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        for snapshot in "aba":
            with running(root, "key-slots", snapshot) as run:
                run.append(NODE_LOAD, [{"node_id": node, "slots": 1, "keys": 1} for node in "mn"])

        assert store.troubles() == 1
        rows = sorted(row["snapshot_id"] + row["node_id"] for row in read_rows(root, NODE_LOAD))
        assert rows == ["am", "an", "bm", "bn"]
        assert sorted(run["state"] for run in read_rows(root, RUNS)) == ["complete", "complete"]
