"""plan make --manifest: a plan for each cluster, side by side, with text for a mail."""

from __future__ import annotations

import json
import re

import pytest

from jobs.rebalance_plan import Request
from slotscope.pipelines.rebalance.fleet_plans import exit_code, requests_of
from slotscope.reports.delivery import document_of
from slotscope.reports.rebalance.fleet import FleetPlansReport, PlannedCluster
from slotscope.reports.terminal import plain_text
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import BAD_INPUT, IMPOSSIBLE, NEW_PLAN, OK, PARTIAL, Failure
from tests.benches.program import slotscope
from tests.builders.rebalance_tables import write_snapshot

THIRDS = [slot * 3 // 16384 for slot in range(16384)]
HOT = dict.fromkeys(range(60), 60000)
CALM = PlannedCluster(
    "calm", "aa", verdict="balanced", resource="keys", before=1.0, after=1.0, limit=1.02, cost="keys", moved=0
)
MOVED = PlannedCluster(
    "warm", "bb", verdict="move", resource="memory_bytes", before=1.3, after=1.01, limit=1.02, cost="memory_bytes", moved=1_000_000,
    moved_slots=12, estimated_s=3.0, sentence="Move 12 slots.", page="/r/plan-bb.html",
)  # fmt: skip
FAILED = PlannedCluster("lost", failure=Failure(BAD_INPUT, "no finished snapshot of cluster lost"))


def report(*clusters):
    return FleetPlansReport("/r", 1_795_000_000_000, clusters)


def asked(folder, text, **more):
    manifest = folder / "clusters.toml"
    manifest.write_text(text)
    return requests_of(Request(manifest=str(manifest), **more), lambda arguments: cli.read_options(Request, arguments))


def test_one_manifest_has_the_options_of_snapshots_and_of_plans(tmp_path):
    text = "[a]\nrdb = 'a.rdb'\n[a.plan]\ntolerance = ['5%']\nplacement = 'a.toml'\n[b]\nrdb = 'b.rdb'\n"

    first, second = asked(tmp_path, text, snapshot=("night",), tolerance=("3%",))

    assert (first.cluster, first.snapshot, first.tolerance, first.placement) == (
        "a",
        ("night-a",),
        ("5%",),
        f"{tmp_path}/a.toml",
    )
    assert (second.cluster, second.snapshot, second.tolerance) == ("b", ("night-b",), ("3%",))


@pytest.mark.parametrize(
    ("text", "more", "error"),
    [
        ("[a.plan]\nrdb = 'x'", {}, "a.plan: rdb: no such option"),
        ("[a.plan]\nroot = 'x'", {}, "a.plan: root: cannot be set per cluster"),
        ("[a]\nplan = 'x'", {}, "move the options of its plan below"),
        ("[a]", {"drain": ("n",)}, "--drain: set it per cluster"),
    ],
)
def test_an_impossible_option_is_refused_before_any_plan_is_made(tmp_path, text, more, error):
    with pytest.raises(InputError, match=re.escape(error)):
        asked(tmp_path, text, **more)


@pytest.mark.parametrize(
    ("clusters", "code"),
    [
        ([CALM], OK),
        ([CALM, MOVED], NEW_PLAN),
        ([MOVED, PlannedCluster("tight", "cc", has_conflict=True)], IMPOSSIBLE),
        ([MOVED, FAILED], PARTIAL),
        ([FAILED, FAILED], BAD_INPUT),
    ],
)
def test_the_exit_code_guides_a_scheduler(clusters, code):
    assert exit_code(report(*clusters), if_needed=True) == code


def test_the_text_names_only_clusters_that_need_a_person():
    lines = plain_text(document_of(report(CALM, MOVED, FAILED))).splitlines()

    assert "1 of 3 clusters need to move slots, 1 without a plan." in lines
    assert next(line.split() for line in lines if line.startswith("  warm ")) == [
        "warm", "1.30×", "1.01×", "1.02×", "1.00", "MB", "12", "3", "s", "bb",
    ]  # fmt: skip
    assert "  lost  no finished snapshot of cluster lost" in lines
    assert not any("calm" in line for line in lines)


@pytest.mark.slow
def test_each_cluster_gets_its_plan_in_one_application(tmp_path, capsys):
    root, manifest = tmp_path / "root", tmp_path / "clusters.toml"
    write_snapshot(root, THIRDS, HOT, name="s1", cluster="warm")
    write_snapshot(root, THIRDS, {}, name="s2", cluster="calm")
    manifest.write_text("[warm]\n[calm]\n[lost]\n")

    code = slotscope("plan", "make", "--root", root, "--manifest", manifest, "--json")
    rows = {row["cluster"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    page = (root / "reports" / "fleet-plans.html").read_text()

    assert code == PARTIAL
    assert rows["warm"]["moved_slots"] > 0
    assert rows["warm"]["after"] <= rows["warm"]["limit"] < rows["warm"]["before"]
    assert (rows["calm"]["moved_slots"], rows["calm"]["page"]) == (0, None)
    assert rows["lost"]["failure"]["line"].endswith("slotscope tables snapshots lists them")
    assert f"plan-{rows['warm']['plan_id']}.html" in page
    assert slotscope("plan", "make", "--root", root, "--snapshot", "s1", "s2") == BAD_INPUT
    assert "the snapshots are of several clusters: calm, warm" in capsys.readouterr().err
