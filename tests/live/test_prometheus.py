"""A real cluster, scraped by redis_exporter for a real Prometheus: a master is killed, and its history is found from metrics alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cluster_core.history.samples import metric_rows
from cluster_core.kinds import EventKind
from cluster_core.replay.rows import EventRow, NodeViewRow
from slotscope.sources.prometheus import fetch_metrics, read_metrics
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.servers import await_port, free_port, redis_binary, wait_for

EXPORTER = shutil.which("prometheus-redis-exporter") or shutil.which("redis_exporter")
PROMETHEUS = shutil.which("prometheus")
S = 1_000_000_000


@contextmanager
def program(*arguments: object) -> Iterator[None]:
    """A program that runs inside the ``with`` block."""
    process = subprocess.Popen([str(word) for word in arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def scraped(cluster: Cluster, folder: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes all nodes of *cluster* each second."""
    exporter, prometheus = free_port(), free_port()
    targets = ", ".join(f"'127.0.0.1:{node.port}'" for node in cluster.nodes)
    settings = folder / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n- job_name: redis\n  metrics_path: /scrape\n"
        f"  static_configs:\n  - targets: [{targets}]\n"
        "  relabel_configs:\n"
        "  - {source_labels: [__address__], target_label: __param_target}\n"
        "  - {source_labels: [__param_target], target_label: instance}\n"
        f"  - {{target_label: __address__, replacement: '127.0.0.1:{exporter}'}}\n"
    )
    with ExitStack() as stack:
        stack.enter_context(program(EXPORTER, "-redis.addr", "", "-web.listen-address", f"127.0.0.1:{exporter}"))
        stack.enter_context(
            program(
                PROMETHEUS, "--config.file", settings, "--storage.tsdb.path", folder / "tsdb",
                "--web.listen-address", f"127.0.0.1:{prometheus}",
            )
        )  # fmt: skip
        await_port(exporter)
        await_port(prometheus)
        yield f"http://127.0.0.1:{prometheus}"


@pytest.mark.slow
@pytest.mark.servers
def test_the_failover_of_a_real_cluster_shows_in_metrics_alone(tmp_path):
    """redis_exporter and Prometheus of Debian, a scrape a second."""
    if redis_binary() is None or EXPORTER is None or PROMETHEUS is None:
        pytest.skip("needs redis-server, prometheus and prometheus-redis-exporter")
    with (
        running_cluster(redis_binary(), masters=3, replicas=3, cluster_node_timeout=2000) as cluster,
        scraped(cluster, tmp_path) as url,
    ):
        begun_ns = time.time_ns()
        time.sleep(8)
        master, replica = cluster.masters[0], cluster.replicas[0]
        killed_ns = time.time_ns()
        os.kill(master.process.pid, signal.SIGKILL)
        wait_for(lambda: b"role:master" in replica.call("INFO", "replication"), "the promotion", 60)
        promoted_ns = time.time_ns()
        time.sleep(5)
        path = fetch_metrics(url, 'job="redis"', begun_ns, time.time_ns(), str(tmp_path), {})

    samples, bad = read_metrics([path], permissive=False)
    rows = list(metric_rows(samples, {}))
    views = [row for row in rows if isinstance(row, NodeViewRow) and row.observer == f"127.0.0.1:{replica.port}"]
    before, after = views[0], views[1]

    assert bad == []
    assert (before.flags, before.master_id) == ("myself,slave", f"127.0.0.1:{master.port}")
    assert after.flags == "myself,master"
    assert after.config_epoch > before.config_epoch
    assert killed_ns < after.valid_from_ns
    assert after.valid_from_min_ns <= promoted_ns
    assert after.valid_from_ns - after.valid_from_min_ns < 4 * S
    down = [sample.ts_ns for sample in samples if sample.address == before.master_id and sample.up is False]
    assert down
    assert killed_ns - S < down[0] < killed_ns + 4 * S
    assert EventKind.PROCESS_STARTED not in {row.kind for row in rows if isinstance(row, EventRow)}
