"""Every kind of page as a person meets it: pictures of it for whoever looks, and nothing on it that keeps people from reading it.

`make test-all` leaves pictures in ``build/screenshots/NAME-WIDTH-THEME.png``.  What keeps people from reading is found by axe-core
(``tests/data/axe``, under the Mozilla Public License 2.0).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotscope.reports.delivery import deliver
from slotscope.reports.fleet.report import ClusterState, FailedRun, FleetReport
from slotscope.reports.index import INDEX
from slotscope.reports.keyspace.comparison import compare_reports
from slotscope.reports.simulation.report import FIGURE_LABELS, SETTING_LABELS, Case, SimulationReport, Spread
from tests.benches.browser import Page, open_page
from tests.builders.history_report import history_report
from tests.builders.rebalance_report import changed, rebalance_report
from tests.builders.reports_builder import TAKEN_AT_MS, full_report, keyspace_report

ROOT = Path(__file__).parents[3]
AXE = (ROOT / "tests" / "data" / "axe" / "axe.min.js").read_text("utf-8")
PICTURES = ROOT / "build" / "screenshots"
WIDTHS = (1400, 420)
THEMES = ("light", "dark")
HEIGHT_MAX = 6000


def comparison(**options: Any) -> Any:
    return compare_reports(replace(keyspace_report(seed=8), snapshot_id="2026-09-20"), keyspace_report(**options))


def simulation() -> SimulationReport:
    """Two cases, with a shard that got no new master in some runs."""
    known = {
        "detected_ms": 2_000.0,
        "elected_ms": 2_900.0,
        "converged_ms": 3_100.0,
        "bus_bytes": 1.5e6,
        "elections": 1.0,
    }
    cases = []
    for number, timeout_ms in enumerate((2_000, 5_000)):
        parameters = dict.fromkeys(SETTING_LABELS, 1) | {
            "profile": "valkey-9.1",
            "fault": "crash",
            "node_timeout_ms": timeout_ms,
        }
        spreads = {
            name: Spread(10, 9, *(value * (number + 1) * more for more in (1.1, 0.9, 1.0, 1.3, 1.5, 1.6)))
            if (value := known.get(name))
            else Spread(10, 0, None, None, None, None, None, None)
            for name in FIGURE_LABELS
        }
        cases.append(Case(number, parameters, spreads))
    return SimulationReport("simulation", 20, tuple(cases), 0)


def fleet() -> FleetReport:
    """A cluster with every trouble, some with one, many with none."""
    now_ms = TAKEN_AT_MS + 7_200_000
    known = {"taken_at_ms": TAKEN_AT_MS, "masters": 40, "keys": 81_234_567, "memory_bytes": 93_000_000_000}
    failed = FailedRun(
        "key-slots",
        TAKEN_AT_MS,
        "/landing/orders/host-3/rdb/dump.rdb: offset 200000: the file is cut short: it ends before its end mark",
    )
    return FleetReport(
        now_ms,
        [
            ClusterState(
                cluster="orders", snapshot=keyspace_report().snapshot_id, is_partial=True, skew=2.34, skew_by="of memory",
                history="orders", recorded_until_ms=now_ms - 40_000, incidents=12, open_incidents=2,
                open_summary="10.0.0.3:6379 was held for failed by 38 of 40 masters; no replica was elected", failed=(failed,), **known,
            ),
            ClusterState(cluster="a-cluster-whose-name-somebody-made-rather-long", failed=(failed,)),
            *(ClusterState(cluster=f"shop-{at}", snapshot=f"s{at}", skew=1.2 - at / 50, skew_by="of keys", **known) for at in range(8)),
        ],
        {f"snapshot {keyspace_report().snapshot_id}": "2026-09-21.html"},
    )  # fmt: skip


REPORTS: dict[str, Callable[[], Any]] = {
    "key-slots": keyspace_report,
    "key-slots-hostile": lambda: replace(full_report(), snapshot_id="hostile<b>"),
    "compare": comparison,
    "plan": lambda: changed(rebalance_report(), snapshot_id=keyspace_report().snapshot_id),
    "history": history_report,
    "simulate": simulation,
    "fleet": fleet,
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A root with a page of every kind, and the list of them."""
    root = tmp_path_factory.mktemp("root")
    result = {name: Path(deliver(made(), root=str(root), html=None, stream=None)) for name, made in REPORTS.items()}
    return result | {"index": root / "reports" / INDEX}


@pytest.fixture(params=[*REPORTS, "index"])
def name(request: pytest.FixtureRequest) -> str:
    """Each page in turn."""
    return str(request.param)


@pytest.fixture
def resize(chromium: Any) -> Iterator[Callable[[int], None]]:
    """Give the window another width, until the test ends."""

    def to(width: int) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    yield to
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def picture(page: Page, width: int) -> bytes:
    """The page from its top to its end, `HEIGHT_MAX` at most."""
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    height = min(page.run("return document.documentElement.scrollHeight"), HEIGHT_MAX)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return base64.b64decode(taken["data"])


def violations(page: Page) -> list[str]:
    """What axe-core finds, a line each: the rule, and the first of the elements that break it."""
    if not page.run("return Boolean(window.axe)"):
        page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    result = page.driver.execute_async_script(
        "const done = arguments[0]; window.axe.run(document, {resultTypes: ['violations']}).then((all) => done(all.violations.map((violation) => "
        "`${violation.id} ${violation.nodes.length}: ${violation.nodes[0].html.slice(0, 160)} ${violation.nodes[0].failureSummary}`)), (error) => done([String(error)]))"
    )
    return list(result)


def sticks_out_px(page: Page) -> int:
    """How far the page is wider than its window."""
    return int(page.run("return document.documentElement.scrollWidth - window.innerWidth"))


def test_a_page_fits_its_window_and_is_accessible(
    chromium: Any, pages: dict[str, Path], name: str, resize: Callable[[int], None]
) -> None:
    resize(WIDTHS[0])
    page = open_page(chromium, pages[name])
    wide = []
    for width in WIDTHS:
        resize(width)
        wide.append(sticks_out_px(page))

    assert max(wide) <= 0
    assert violations(page) == []
    assert page.console() == []


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_pictured_in_both_themes_and_is_accessible(
    chromium: Any, pages: dict[str, Path], name: str, width: int, resize: Callable[[int], None]
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    resize(width)
    page = open_page(chromium, pages[name])
    problems, sizes, wide = [], [], []
    for theme in THEMES:
        page.choose("theme", theme)
        drawn = picture(page, width)
        (PICTURES / f"{name}-{width}-{theme}.png").write_bytes(drawn)
        sizes.append(len(drawn))
        wide.append(sticks_out_px(page))
        problems += violations(page)

    assert problems == []
    assert wide == [0, 0]
    assert min(sizes) > 10_000
    assert page.console() == []
