"""The examples of docs/recording.md and docs/following.md, read by the tools that would run them; a tool that is not installed skips its test by name."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cluster_core.formats.landing import Kind, Reason, address_of, read_path
from jobs.follow import Request as FollowOptions
from jobs.record import Request
from slotscope.options import AccessOptions
from slotscope.recording.recorder import Status
from slotscope.runtime.run_metrics import FIGURES
from slotscope.sources.bus.point_series import CLOCK, GONE, LATE
from tests.benches.servers import wait_for

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
UNIT = EXAMPLES / "slotscope-record.service"
MANIFESTS = ("slotscope-record-sidecar.yaml", "slotscope-record-daemonset.yaml")


def recorder_of(name: str) -> dict[str, Any]:
    """The container in a manifest."""
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    (manifest,) = yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8"))
    (actual,) = (part for part in manifest["spec"]["template"]["spec"]["containers"] if part["name"] == "recorder")
    return dict(actual)


def commands_of(job: str) -> list[list[str]]:
    """The arguments of the program, in the unit, the cron table and the manifests of *job*."""
    unit = (EXAMPLES / f"slotscope-{job}.service").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    lines += [path.read_text(encoding="utf-8").splitlines()[-1] for path in EXAMPLES.glob(f"slotscope-{job}.cron")]
    commands = [re.search(r"/slotscope +(\w.*)", line)[1] for line in lines]  # type: ignore[index]
    return [shlex.split(command) for command in commands] + [
        recorder_of(name)["args"] for name in MANIFESTS if job in name
    ]


@pytest.mark.parametrize(
    ("page", "job", "options", "reasons", "examples"),
    [
        ("recording", "record", (Request, AccessOptions), set(Reason), {"slotscope-ship-log.sh"}),
        ("following", "follow", (FollowOptions,), {LATE, GONE, CLOCK}, set()),
    ],
)
def test_the_page_names_every_reason_example_and_existing_option(page, job, options, reasons, examples):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    known = {field.name.replace("_", "-") for kind in options for field in fields(kind)}
    commands = commands_of(job)

    assert {command[0] for command in commands} == {job}
    assert len(commands) >= 2
    assert {word[2:].partition("=")[0] for command in commands for word in command if word.startswith("--")} <= known
    assert set(re.findall(r"`--([a-z][a-z-]+)", text)) - {"exclude"} <= known | {"slot-stats"}
    assert set(re.findall(r"`([a-z-]+)`", text)) >= reasons
    assert {path.name for path in EXAMPLES.glob(f"slotscope-{job}*")} | examples == set(
        re.findall(r"examples/([\w.-]+\w)", text)
    )


def test_the_log_shipper_writes_finished_files_of_the_node_with_every_line(tmp_path):
    log, folder = tmp_path / "server.log", tmp_path / "shop" / "host-1" / "logs"
    lines = [b"1:M 01 Jan 2026 00:00:00.000 * first\n", b"1:M 01 Jan 2026 00:00:01.000 * second\n"]
    log.write_bytes(lines[0])
    command = ["sh", str(EXAMPLES / "slotscope-ship-log.sh"), str(log), str(folder), "10.0.0.1_7000", "0.1"]
    with subprocess.Popen(command) as shipper:
        wait_for(lambda: any(folder.glob("[!.]*")), "the first file")
        log.write_bytes(lines[1])
        wait_for(lambda: len([*folder.glob("[!.]*")]) == 2 and not any(tmp_path.glob("*.part")), "the second file")
        shipper.terminate()
    files = sorted(folder.iterdir())
    places = [read_path(str(path)) for path in files]

    assert [gzip.decompress(path.read_bytes()) for path in files] == lines
    assert [address_of(path.name) for path in files] == [("10.0.0.1", 7000)] * 2
    assert [place and (place.cluster, place.kind) for place in places] == [("shop", Kind.LOGS)] * 2


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_recorder_has_one_capability(name):
    assert recorder_of(name)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}


def lost(written: Any, read: Any, path: str = "") -> list[str]:
    """The paths of *written* that *read* does not have."""
    if isinstance(written, dict):
        return [
            line for key in written for line in lost(written[key], read.get(key) if read else None, f"{path}/{key}")
        ]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [line for pair in zip(written, read, strict=True) for line in lost(*pair, path)]
    return [] if written == read else [path]


def test_the_types_of_grafana_read_the_dashboard():
    """All but two options of annotations, which belong to the Prometheus data source."""
    models = pytest.importorskip(
        "grafana_foundation_sdk.models.dashboard", reason="the SDK of Grafana is not installed"
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    record = json.loads((EXAMPLES / "slotscope-fleet-dashboard.json").read_text(encoding="utf-8"))
    read = json.loads(json.dumps(models.Dashboard.from_json(record), cls=JSONEncoder))

    assert lost(record, read) == ["/annotations/list/titleFormat", "/annotations/list/step"]


def test_prometheus_takes_the_alert_rules_and_the_dashboard_shows_figures_that_exist():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian: prometheus) is not installed")
    rules = EXAMPLES / "slotscope-alerts.yaml"

    ended = subprocess.run([promtool, "check", "rules", str(rules)], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    dashboard = json.loads((EXAMPLES / "slotscope-fleet-dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = set(re.findall(r"slotscope_\w+", " ".join([*queries, rules.read_text(encoding="utf-8")])))
    recorded = {f"slotscope_record_{name}" for name in (*Status._fields, "timestamp_seconds")}
    assert asked <= recorded | {f"slotscope_run_{name}" for name in (*FIGURES, "rows")}


def test_the_unit_can_gain_one_capability():
    text = UNIT.read_text(encoding="utf-8")

    assert "CapabilityBoundingSet=CAP_NET_RAW\n" in text
    assert "\nNoNewPrivileges" not in text
