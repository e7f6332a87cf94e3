"""The main jobs on a Spark Connect server, which a client reaches without a JVM of its own."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.main import run as run_job
from schemas.catalogue import TABLES
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.spark_cluster import connect_server
from tests.conftest import DATA

pytest.importorskip("grpc", reason="the client of Spark Connect is not installed: pip install 'pyspark[connect]'")
pytestmark = pytest.mark.processes

SLOTSCOPE = str(Path(sys.executable).parent / "slotscope")
DUMPS = DATA / "valkey-9.1" / "before"
BUS = DATA / "bus-redis-7.0"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect") / "server") as address:
        yield address


@pytest.fixture(scope="module")
def run(server, tmp_path_factory):
    """Runs ``slotscope JOB OPTIONS`` on the server; returns the rows of the tables asked for."""
    root = str(tmp_path_factory.mktemp("root"))

    def run(job: str, *options: object, reads: tuple[str, ...]) -> list[list[dict[str, object]]]:
        command = [SLOTSCOPE, job, "--root", root, "--master", server, *map(str, options)]
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return [read_rows(root, table) for table in TABLES if table.name in reads]

    return run


def test_key_slots_and_a_plan_run_on_spark_connect(run):
    """Every key that the servers had is counted, and the plan moves slots of the master with most."""
    topology = DATA / "valkey-9.1" / "topology" / "nodes.txt"
    (slots,) = run(
        "key-slots", "--rdb", DUMPS / "*.rdb", "--topology", topology, "--snapshot", "monday",
        reads=("silver/slot_load",),
    )  # fmt: skip

    keys = 0
    for path in DUMPS.glob("keys-*.jsonl.gz"):
        with gzip.open(path) as lines:
            keys += sum(1 for _ in lines)
    assert sum(row["keys"] for row in slots) == keys
    (moves,) = run("rebalance-plan", "--tolerance", "50%", reads=("gold/rebalance_moves",))
    heaviest, _ = Counter(row["owner_id"] for row in slots for _ in range(row["keys"])).most_common(1)[0]
    assert {row["source"] for row in moves} == {heaviest}


@pytest.mark.slow
def test_history_runs_on_spark_connect(run):
    """Packets, logs and polls of a failover: it is found, and the views of all six nodes are there."""
    incidents, views = run(
        "history", "--pcap", BUS / "bus.pcap.gz", "--log", BUS / "logs" / "*", "--polls", BUS / "polls.jsonl.gz",
        reads=("gold/incidents", "silver/node_views"),
    )  # fmt: skip

    assert "failover" in {row["kind"] for row in incidents}
    assert len({row["observer"] for row in views}) == 6


@pytest.mark.parametrize("listens", [False, True])
def test_an_address_without_a_spark_connect_server_is_one_line_in_seconds(listens, tmp_path, monkeypatch, capfd):
    """Nothing listens, or something that never answers; a token in the address is not repeated."""
    monkeypatch.setattr("slotscope.runtime.spark.session.CONNECT_SECONDS", 0.5)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        if listens:
            place.listen()
        name = f"sc://127.0.0.1:{place.getsockname()[1]}/"
        start = time.monotonic()
        code = run_job(["key-slots", "--root", str(tmp_path), "--rdb", str(DUMPS), "--master", f"{name};token=secret"])

    assert (code, time.monotonic() - start < 60) == (2, True)
    assert capfd.readouterr().err == f"slotscope: --master {name}: no Spark Connect server answers there\n"


def test_a_malformed_address_of_spark_connect_is_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)

    code = run_job(["key-slots", "--root", str(tmp_path), "--rdb", str(DUMPS), "--master", "sc://host/path"])

    assert code == 2
    assert capfd.readouterr().err == (
        "slotscope: --master sc://host/path: not an address of a Spark Connect server: sc://HOST:PORT\n"
    )
