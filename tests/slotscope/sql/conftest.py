"""Tables that queries are tried on."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest
from pyspark.sql import SparkSession

from tests.conftest import DATA

RECORDED = DATA / "bus-redis-7.0"


@pytest.fixture(scope="session")
def asked_root(spark: SparkSession, recorded_root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of the cookbook: the recorded cluster before and after, a plan, and a replayed failover; the session names its tables and views."""
    from jobs import bus_replay, rebalance_plan
    from slotscope import register_views
    from slotscope.requests.bus_replay import Request as Replay
    from slotscope.requests.rebalance_plan import Request as Plan

    root = str(copytree(recorded_root, tmp_path_factory.mktemp("asked") / "root"))
    rebalance_plan.run(Plan(root=root, snapshot=("after",)), None)
    inputs = {"pcap": [str(RECORDED / "bus.pcap.gz")], "log": [str(RECORDED / "logs" / "*")]}
    bus_replay.run(spark, Replay(root=root, polls=[str(RECORDED / "polls.jsonl.gz")], **inputs))
    register_views(spark, root)
    return root
