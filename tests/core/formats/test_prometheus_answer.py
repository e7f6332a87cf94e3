"""Answers of Prometheus: redis_exporter at a cluster with a killed master, and bad answers."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.prometheus_answer import MetricReader, MetricSample, without_repeats

FOLDER = Path(__file__).parents[2] / "data" / "prometheus"
MASTER, REPLICA = "127.0.0.1:11034", "127.0.0.1:11491"
KILLED_NS, PROMOTED_NS, RESTARTED_NS = 1795824131_130_000_000, 1795824135_216_000_000, 1795824143_216_000_000
S = 1_000_000_000


def samples(*answers: bytes) -> list[MetricSample]:
    reader = MetricReader()
    for raw in answers:
        assert reader.feed(raw) > 0
    return reader.samples()


def recorded(name: str) -> list[MetricSample]:
    return samples(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))


def of(read_samples: list[MetricSample], address: str) -> list[MetricSample]:
    return [sample for sample in read_samples if sample.address == address]


def answer(*series: dict, **more) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}, **more}).encode()


def series(name: str, values: list, instance: str = "10.0.0.1:7000", **labels: str) -> dict:
    return {"metric": {"__name__": name, "instance": instance, **labels}, "values": values}


@pytest.mark.parametrize("form", ["query_range", "query_matrix"])
def test_the_promotion_lies_between_two_scrapes(form):
    """Redis 7.0, redis_exporter 1.45, scraped each second: steps of a query, and times of scrapes."""
    roles = [sample for sample in of(recorded(form), REPLICA) if sample.role]
    change = next(at for at, sample in enumerate(roles) if sample.role == "master")

    before, after = roles[change - 1], roles[change]
    assert before.role == "slave"
    assert before.ts_min_ns <= PROMOTED_NS <= after.ts_ns + S
    assert after.ts_ns - before.ts_min_ns <= (5 if form == "query_range" else 2) * S


def test_a_sample_has_role_master_process_epoch_and_offsets():
    replica = next(sample for sample in of(recorded("query_range"), REPLICA) if sample.role == "slave")

    assert (replica.master, replica.version, replica.cluster_ok) == (MASTER, "Redis 7.0.15", True)
    assert (replica.my_epoch, replica.replica_offset) == (1, 14)


def test_a_restart_shows_as_another_process():
    seen = of(recorded("query_range"), MASTER)
    down = [sample.ts_ns for sample in seen if sample.up is False]
    runs = list(dict.fromkeys(sample.server_run_id for sample in seen if sample.server_run_id))

    assert KILLED_NS < down[0] < down[-1] < RESTARTED_NS + 2 * S
    assert len(runs) == 2


def test_repeats_are_left_out_and_changes_stay():
    """First and last of equal samples, and both sides of a hole."""
    stamps = [*range(1000, 1050, 5), *range(1200, 1250, 5)]
    values = [[t, "1"] for t in stamps]
    read_samples = samples(
        answer(series("redis_cluster_state", values), series("redis_uptime_in_seconds", [[t, str(t)] for t in stamps]))
    )

    kept = list(without_repeats(read_samples))

    assert [sample.ts_ns // S for sample in kept] == [1000, 1045, 1200, 1245]


def test_each_metric_may_be_an_answer_of_its_own():
    """Answers in several files, or one a line."""
    up, info = (
        answer(series("redis_up", [[1000, "1"]])),
        answer(series("redis_instance_info", [[1000, "1"]], role="master", tcp_port="7001")),
    )

    (sample,) = samples(up, info)

    assert samples(up + b"\n" + info) == [sample]
    assert (sample.address, sample.up, sample.role) == ("10.0.0.1:7001", True, "master")


@pytest.mark.parametrize(
    ("instance", "labels", "address"),
    [
        ("redis://10.0.0.1:7000", {}, "10.0.0.1:7000"),
        ("redis://user:secret@10.0.0.1:7000", {}, "10.0.0.1:7000"),
        ("10.0.0.1:9121", {"addr": "10.0.0.2:7000"}, "10.0.0.2:7000"),
        ("[fd00::1]:7000", {}, "[fd00::1]:7000"),
        ("redis-0", {}, "redis-0:6379"),
    ],
)
def test_a_server_is_known_by_its_address(instance, labels, address):
    """Exporters name the server in instance or addr."""
    (sample,) = samples(answer(series("valkey_up", [[1000, "1"]], instance, **labels)))

    assert sample.address == address


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON|not an answer"),
        (b"nothing", "line 1: not JSON"),
        (b'{"status": "error", "error": "query timed out"}', "an error of Prometheus: query timed out"),
        (b'{"a": 1}', "not an answer of Prometheus"),
        (b'{"data": {"result": [1]}}', "not an answer of Prometheus"),
    ],
)
def test_an_invalid_answer_is_refused_in_one_line(raw, reason):
    with pytest.raises(DecodeError, match=reason):
        MetricReader().feed(raw or b"\n{")


def test_non_numeric_values_are_skipped():
    """NaN and infinities are values of Prometheus."""
    values = [[1000, "NaN"], [1001, "+Inf"], ["x", "1"], [None], 7, [1002, "1"]]

    (sample,) = samples(answer(series("redis_up", values)))

    assert sample.ts_ns == 1002 * S


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["data", "result", "metric", "values", "value", "status", "__name__"]), x, max_size=4)))  # fmt: skip
def test_any_answer_is_read_or_a_decode_error(document):
    reader = MetricReader()
    with suppress(DecodeError):
        reader.feed(json.dumps(document).encode())

    assert reader.samples() == []
