"""What a simulation says, as values, read from its tables; `simulation_html` and `simulation_terminal` draw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS: Final = 60
"""Points of a curve."""
STUCK_MAX: Final = 200
CASES_DRAWN: Final = 8
FIGURE_WORDS: Final = {
    "detected_ms": "until the failure is detected",
    "elected_ms": "until there is a new master",
    "converged_ms": "until every node knows",
    "lost": "acknowledged writes lost",
    "unavailable": "acknowledged writes that no running node serves",
    "bus_bytes": "bytes on the bus",
    "elections": "requests for votes",
}
MEASURED_BY_CLIENTS: Final = ("lost", "unavailable")
"""Figures that there are only where clients write."""
PARAMETER_WORDS: Final = {
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
MODELLED: Final = (
    "Every node is the whole state machine that also replays captures: gossip, failure detection, elections, votes, UPDATE,"
    " replica migration, in the rules of the server version that was asked for.",
    "The network is TCP: connections, order within a link, delays; lost packets hold up what is behind them.",
    "Replication has offsets, delay, partial and full syncs; clients write, follow redirections and remember what was acknowledged.",
)
NOT_MODELLED: Final = (
    "Time that commands, forks, disks and big keys take; a busy event loop delays pings in reality.",
    "Bandwidth: a message of the bus takes as long whatever its size, and links have no limit unless one is set.",
    "Memory, eviction, expiry, modules, TLS, and everything that clients do but SET.",
    "The operating system: a process stops at once, and a machine that is back has its clock.",
)


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
    """One combination of parameters; *curve* is the share of the runs (y) that had a new master after x ms."""

    number: int
    parameters: dict[str, Any]
    spreads: dict[str, Spread]
    curve: tuple[tuple[float, float], ...]


class Stuck(NamedTuple):
    """A shard that got no new master in some runs of a case, and the reason that was met most."""

    case: int
    master: str
    runs: int
    hindrance: str


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """Everything that a report shows."""

    snapshot_id: str
    start: str
    """Where the clusters come from."""
    runs: int
    cases: tuple[Case, ...]
    stuck: tuple[Stuck, ...]
    stuck_count: int
    violations: int

    @property
    def varied(self) -> list[str]:
        """Parameters in which the cases differ."""
        return [name for name in PARAMETER_WORDS if len({str(case.parameters[name]) for case in self.cases}) > 1]

    def words(self, case: Case) -> str:
        """What a case is called: the parameters that vary, or all that it is made of."""
        names = self.varied or ["profile", "node_timeout_ms", "fault"]
        return ", ".join(f"{PARAMETER_WORDS[name]} {case.parameters[name]}" for name in names)

    def fixed(self) -> str:
        """The parameters that all cases have in common."""
        if not self.cases:
            return ""
        first = self.cases[0].parameters
        return ", ".join(
            f"{words} {first[name] or 'any'}" for name, words in PARAMETER_WORDS.items() if name not in self.varied
        )


def read_report(spark: SparkSession, *, root: str, snapshot: str, start: str) -> SimulationReport:
    """The report of the runs of *snapshot*; raises InputError if there are none."""
    from pyspark.sql import functions as F

    from schemas.simulation import SIMULATED_QUANTILES, SIMULATED_RUNS, SIMULATED_SHARDS
    from slotscope.runtime import tables

    rows = tables.read_snapshot(spark, SIMULATED_QUANTILES, root, snapshot).orderBy("case", "figure").collect()
    runs = tables.read_snapshot(spark, SIMULATED_RUNS, root, snapshot)
    totals = runs.agg(
        F.count(F.lit(1)).alias("runs"), F.coalesce(F.sum("violations"), F.lit(0)).alias("broken")
    ).first()
    per_case: dict[int, list[Any]] = {}
    for row in rows:
        per_case.setdefault(row["case"], []).append(row)
    shares = [number / POINTS for number in range(POINTS + 1)]
    curves = {
        tuple(row[name] for name in PARAMETER_WORDS): row["curve"] or []
        for row in runs.groupBy(*PARAMETER_WORDS)
        .agg(F.percentile("elected_ms", F.array(*(F.lit(share) for share in shares))).alias("curve"))
        .collect()
    }
    shards = tables.read_snapshot(spark, SIMULATED_SHARDS, root, snapshot).where("elected_ms IS NULL")
    shards = shards.select("run", "master", "hindrance")
    keyed = shards.join(runs.select("run", *PARAMETER_WORDS), "run")
    stuck = (
        keyed.groupBy(*PARAMETER_WORDS, "master")
        .agg(F.count(F.lit(1)).alias("runs"), F.mode("hindrance", True).alias("hindrance"))
        .orderBy(F.desc("runs"), *PARAMETER_WORDS, "master")
    )
    cases = tuple(_case(number, found, curves, shares) for number, found in sorted(per_case.items()))
    numbers = {tuple(case.parameters.values()): case.number for case in cases}
    listed = tuple(
        Stuck(numbers[tuple(row[name] for name in PARAMETER_WORDS)], row["master"], row["runs"], row["hindrance"])
        for row in stuck.limit(STUCK_MAX).collect()
    )
    count = stuck.count() if len(listed) == STUCK_MAX else len(listed)
    return SimulationReport(
        snapshot, start, totals["runs"] if totals else 0, cases, listed, count, int(totals["broken"]) if totals else 0
    )


def _case(number: int, rows: list[Any], curves: dict[tuple[Any, ...], list[float]], shares: list[float]) -> Case:
    parameters = {name: rows[0][name] for name in PARAMETER_WORDS}
    spreads = {row["figure"]: Spread(*(row[name] for name in Spread._fields)) for row in rows}
    elected = spreads["elected_ms"]
    known = elected.known / elected.runs if elected.runs else 0.0
    values = curves.get(tuple(parameters.values()), [])
    curve = tuple((value, share * known) for value, share in zip(values, shares, strict=False))
    return Case(number, parameters, spreads, curve)


def unknown_text(name: str, runs: int) -> str:
    """What is said of a figure that no run has."""
    return "not measured: no clients" if name in MEASURED_BY_CLIENTS else f"in none of {runs} runs"


def figure_text(name: str, value: float | None) -> str:
    """A figure as people read it."""
    if value is None:
        return "never"
    if name.endswith("_ms"):
        return f"{value / 1000:.2f} s"
    if name.endswith("bytes"):
        return f"{value / 1e6:.1f} MB"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"
