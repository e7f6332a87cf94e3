"""The report on simulated runs: read from its tables, and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from schemas.simulation import SIMULATED_QUANTILES, SIMULATED_RUNS
from slotscope.reports.document import (
    Bar,
    Cell,
    Column,
    Document,
    Format,
    Place,
    Section,
    Sentence,
    Table,
    Tile,
    how_to_read,
)
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import all_equal, query_rows, read_rows

FIGURE_LABELS: Final = {
    "detected_ms": "failure detected",
    "elected_ms": "new master elected",
    "converged_ms": "all nodes agree",
    "lost": "writes lost",
    "unavailable": "writes not served",
    "bus_bytes": "bus traffic",
    "elections": "vote requests",
}
FAULT_LABELS: Final = {
    "crash": "masters crash",
    "power": "machines of masters lose power",
    "freeze": "masters freeze",
    "zone": "a zone goes",
    "partition": "a zone is cut off",
    "none": "nothing fails",
}
MEASURED_BY_CLIENTS: Final = ("lost", "unavailable")
"""Figures that need clients."""
SETTING_LABELS: Final = {
    "profile": "profile",
    "node_timeout_ms": "node timeout (ms)",
    "shards": "shards",
    "replicas": "replicas",
    "zones": "zones",
    "validity_factor": "validity factor",
    "migration_barrier": "migration barrier",
    "fault": "fault",
    "hit": "hit",
    "delay_ms": "delay (ms)",
    "clients": "clients",
}


class Spread(NamedTuple):
    """How one figure is distributed; None where no run has one."""

    runs: int
    known: int
    mean: float | None
    p10: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    worst: float | None


@dataclass(frozen=True, slots=True)
class Case:
    """One combination of parameters."""

    number: int
    parameters: dict[str, Any]
    spreads: dict[str, Spread]


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """Everything that a report shows."""

    snapshot_id: str
    runs: int
    cases: tuple[Case, ...]
    violations: int

    @property
    def varied(self) -> list[str]:
        """Parameters in which the cases differ."""
        return [name for name in SETTING_LABELS if len({str(case.parameters[name]) for case in self.cases}) > 1]

    @property
    def title(self) -> str:
        """Title: the simulated faults and the cluster."""
        faults = list(dict.fromkeys(str(case.parameters["fault"]) for case in self.cases))
        named = " or ".join(FAULT_LABELS.get(fault, fault) for fault in faults) or "nothing"
        snapshot = f", {self.snapshot_id}" if self.snapshot_id != "simulation" else ""
        return f"What if {named}{snapshot}"

    @property
    def verdict(self) -> str:
        """How often and how soon there was a new master, in one sentence."""
        known = sum(case.spreads["elected_ms"].known for case in self.cases)
        if all(case.parameters["fault"] == "none" for case in self.cases):
            return f"No fault was injected in {text.plural(self.runs, 'run')}."
        if not known:
            return f"In none of {text.plural(self.runs, 'run')} did every failed shard get a new master."
        drawn = [case for case in self.cases if case.spreads["elected_ms"].known]
        worst = max(drawn, key=lambda case: case.spreads["elected_ms"].worst or 0.0)
        halves = sorted(case.spreads["elected_ms"].p50 or 0.0 for case in drawn)
        half = figure_text("elected_ms", halves[0])
        if len(drawn) > 1:
            half = f"{half} to {figure_text('elected_ms', halves[-1])} by case"
        counted = f"In all {self.runs}" if known == self.runs else f"In {text.count(known)} of {text.count(self.runs)}"
        which = f" ({self.label(worst)})" if len(self.cases) > 1 else ""
        return (
            f"{counted} runs every failed shard got a new master: half of them within {half},"
            f" the slowest after {figure_text('elected_ms', worst.spreads['elected_ms'].worst)}{which}."
        )

    def label(self, case: Case) -> str:
        """Return the label of a case: the parameters that vary, else its main ones."""
        names = self.varied or ["profile", "node_timeout_ms", "fault"]
        return ", ".join(f"{SETTING_LABELS[name]} {case.parameters[name]}" for name in names)

    def fixed(self) -> str:
        """The parameters that all cases have in common."""
        if not self.cases:
            return ""
        first = self.cases[0].parameters
        return ", ".join(f"{label} {first[name]}" for name, label in SETTING_LABELS.items() if name not in self.varied)


def read_report(*, root: str, snapshot: str) -> SimulationReport:
    """The report of the runs of *snapshot*; raises InputError if there are none."""
    own = all_equal({"snapshot_id": snapshot})
    (totals,) = query_rows(
        root, f"SELECT COUNT(*) AS runs, COALESCE(SUM(violations), 0) AS broken FROM simulated_runs WHERE {own}", SIMULATED_RUNS
    )  # fmt: skip
    per_case: dict[int, list[dict[str, Any]]] = {}
    for row in read_rows(root, SIMULATED_QUANTILES, order_by='"case", figure', snapshot_id=snapshot):
        per_case.setdefault(row["case"], []).append(row)
    cases = tuple(_case(number, rows_of_case) for number, rows_of_case in sorted(per_case.items()))
    return SimulationReport(snapshot, totals["runs"], cases, int(totals["broken"]))


def _case(number: int, rows: list[Any]) -> Case:
    parameters = {name: rows[0][name] for name in SETTING_LABELS}
    return Case(number, parameters, {row["figure"]: Spread(*(row[name] for name in Spread._fields)) for row in rows})


def unknown_text(name: str, runs: int) -> str:
    """Why a figure is unknown."""
    return "not measured: no clients" if name in MEASURED_BY_CLIENTS else f"in none of {runs} runs"


def figure_text(name: str, value: float | None) -> str:
    """A figure with its unit."""
    if value is None:
        return "never"
    if name.endswith("_ms"):
        return text.duration(value / 1000)
    if name.endswith("bytes"):
        return text.size(round(value))
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


SHORT: Final = ("p50", "p90", "worst")
"""Quantiles that a terminal shows."""
QUANTILES: Final = (
    ("Mean", "mean"),
    ("10 %", "p10"),
    ("50 %", "p50"),
    ("90 %", "p90"),
    ("99 %", "p99"),
    ("Worst", "worst"),
)
ROWS_ON_TERMINAL: Final = 60


def to_document(report: SimulationReport) -> Document:
    """Return *report* as a document."""
    measured = [name for name in FIGURE_LABELS if any(case.spreads[name].known for case in report.cases)]
    unknown = [
        Sentence(f"Unknown: {label} ({unknown_text(name, report.runs)}).")
        for name, label in FIGURE_LABELS.items()
        if report.cases and name not in measured
    ]
    sections = [
        Section("cases", "Results", [_results(report, measured), *unknown]),
        how_to_read(
            "Every node runs the state machine that also replays captures; the network and replication are modelled, the time"
            " that commands, forks and disks take is not: see docs/simulator.md.",
            "A run is reproduced from its parameters and seed in gold/simulated_runs; gold/simulated_shards names shards without a new master,"
            " and the reason.",
        ),
    ]
    broken = text.plural(report.violations, "invariant")
    recovered = sum(case.spreads["elected_ms"].known for case in report.cases)
    return Document(
        "simulation",
        report.title,
        report.verdict,
        sections,
        names=(report.snapshot_id,),
        subtitle=f" · {text.plural(report.runs, 'run')}",
        alarm=f" · {broken} broken: a defect of the simulator" if report.violations else "",
        reason=report.fixed(),
        page_label="All quantiles",
        tiles=[
            Tile("total-runs", "Runs", report.runs, note=f"of {text.plural(len(report.cases), 'case')}"),
            Tile("total-recovered", "Recovered", recovered, note="a new master in every failed shard"),
            Tile("total-violations", "Invariants broken", report.violations),
        ],
    )


def _results(report: SimulationReport, measured: Sequence[str]) -> Table:
    """A row for each figure of each case; bars of one figure share an axis."""
    tops = {name: max(case.spreads[name].worst or 0.0 for case in report.cases) or 1.0 for name in measured}

    def bar(row: tuple[str, Case]) -> Bar:
        p10, p50, p90 = ((value or 0.0) / tops[row[0]] for value in row[1].spreads[row[0]][3:6])
        return Bar(p90, p10, p50)

    def quantile(name: str, row: tuple[str, Case]) -> Cell:
        value = getattr(row[1].spreads[row[0]], name)
        return Cell(value, text.NOTHING if value is None else figure_text(row[0], value))

    columns = [
        Column("Figure", Format.TEXT, lambda row: FIGURE_LABELS[row[0]]),
        Column("Case", Format.TEXT, lambda row: report.label(row[1])),
        Column(
            "Runs",
            Format.COUNT,
            lambda row: Cell(row[1].spreads[row[0]].known, note=f"of {row[1].spreads[row[0]].runs}"),
        ),
        *(
            Column(title, Format.COUNT, partial(quantile, name), on=Place.EVERYWHERE if name in SHORT else Place.PAGE)
            for title, name in QUANTILES
        ),
        Column("10 % to 90 %, median", Format.BAR, bar, on=Place.PAGE),
    ]
    if len(report.cases) < 2:
        columns.pop(1)
    rows = [(name, case) for name in measured for case in report.cases]
    caption = "Quantiles over the runs that have the figure"
    return Table(
        "cases-table", caption, columns, rows, "gold/simulated_quantiles", on_page=2_000, on_terminal=ROWS_ON_TERMINAL
    )
