"""Hot, cold and doomed: from dumps with idle times and counters to tables, reports, comparisons and plans."""

from __future__ import annotations

import pytest

from jobs import key_slots
from jobs.key_slots import Request
from schemas.gold import KEY_USE
from slotscope.reports.keyspace.parts import NOT_RECORDED
from slotscope.reports.keyspace.report import load_report
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.sources.slot_weights import read_weights
from tests.benches.reports import page_of, terminal_of
from tests.builders import rdb_builder as build

CTIME = 1_700_000_000
DAY_S = 86_400


def dump(path, keys):
    """A dump of strings: (name, what stands before the key)."""
    records = [build.key(name, 0, build.string(b"v" * 100), **more) for name, more in keys]
    path.write_bytes(build.rdb(build.aux("redis-ver", "7.0.15"), build.aux("ctime", CTIME), build.select(0), *records))
    return str(path)


@pytest.fixture(scope="module")
def use_root(spark, tmp_path_factory):
    """Snapshot ``new`` with counters, ``slow`` with some that fall every two minutes, ``idle`` with idle times, ``none`` without either."""
    folder = tmp_path_factory.mktemp("use")
    hour = {"expire_ms": (CTIME + 600) * 1000}
    dumps = {
        "new": [
            *((b"cart:%d" % i, {"freq": 100}) for i in range(50)),
            *((b"sale:%d" % i, {"freq": 50}) for i in range(5)),
            *((b"page:%d" % i, {"freq": 5}) for i in range(50)),
        ],
        "idle": [
            *((b"old:%d" % i, {"idle": 31 * DAY_S}) for i in range(30)),
            *((b"fresh:%d" % i, {"idle": 60, **hour}) for i in range(60)),
            *((b"fresh:left%d" % i, {"idle": 60}) for i in range(10)),
        ],
        "none": [(b"a:%d" % i, {}) for i in range(10)],
        "slow": [(b"cart:%d" % i, {"freq": 100}) for i in range(50)],
    }
    for name, keys in dumps.items():
        rdb = (dump(folder / f"{name}.rdb", keys),)
        request = Request(root=str(folder / "root"), snapshot=name, rdb=rdb, lfu_decay_time=2 if name == "slow" else 1)
        key_slots.run(spark, request)
    return str(folder / "root")


def shown(report):
    return terminal_of(report, width=120)


def test_untouched_and_expiring_memory_adds_up_by_prefix_and_in_all(use_root):
    rows = {(row["scope"], row["scope_value"]): row for row in read_rows(use_root, KEY_USE, snapshot_id="idle")}

    old, fresh, whole = rows["prefix", b"old:"], rows["prefix", b"fresh:"], rows["cluster", b""]
    assert old["untouched_1d_bytes"] == old["untouched_30d_bytes"] == old["weight_bytes"] == whole["untouched_7d_bytes"]
    assert fresh["untouched_1d_bytes"] == 0
    assert fresh["expiring_1h_bytes"] == fresh["expiring_bytes"] == whole["expiring_7d_bytes"] > 0
    assert (fresh["keys"], fresh["expires"]) == (70, 60)
    assert whole["ops_per_s"] is None
    assert sum(row["untouched_30d_bytes"] for (scope, _), row in rows.items() if scope == "slot") == old["weight_bytes"]


def test_the_terminal_and_the_page_name_cold_keys_and_prefixes_without_expiry(use_root):
    report = load_report(use_root, "idle")

    terminal, page = shown(report), page_of(report)
    assert [prefix.never_expiring for prefix in report.use.prefixes if prefix.name == b"fresh:"] == [10]
    assert "untouched for 30 d" in terminal
    assert "First to expire" in terminal
    assert "Access and expiry" in page


def test_a_dump_without_idle_times_and_counters_names_the_setting(use_root):
    report = load_report(use_root, "none")

    assert NOT_RECORDED.split(";")[0] in " ".join(shown(report).split())
    assert NOT_RECORDED[1:] in page_of(report)


def test_counters_give_operations_by_slot_that_are_called_estimated(use_root):
    loads = read_weights(use_root, ["new"], how="last").loads

    assert "ops" not in loads
    assert sum(loads["ops_estimated"]) == pytest.approx((50 * 946 + 5 * 446) / 60 * 1000, rel=0.01)


def test_rates_of_rising_counters_are_lower_bounds(use_root):
    """With an lfu-decay-time of two minutes: in the table, on the terminal, on the page."""
    (whole,) = read_rows(use_root, KEY_USE, snapshot_id="slow", scope="cluster")
    report = load_report(use_root, "slow")

    assert whole["ops_per_s"] > 0
    assert whole["ops_per_s_error"] is None
    assert "accesses a second, estimated, at least (with lfu-decay-time 2" in " ".join(shown(report).split())
    assert "≥ " in shown(report)
    assert "≥ " in page_of(report)
    assert "≥ " not in shown(load_report(use_root, "new"))
