"""Scenarios: what they are made of once they have been read (`scenario_text` reads them, `play` plays them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster_core.errors import ClusterCoreError
from cluster_core.node.settings import NodeSettings
from cluster_core.sim.layouts import Layout, Place
from cluster_core.sim.network_paths import Path
from cluster_core.sim.sentinels.layout import SentinelLayout


class ScenarioError(ClusterCoreError, ValueError):
    """A scenario that cannot be read; *line* and *column* count from 1."""

    def __init__(self, reason: str, *, line: int, column: int = 1, source: str = "<scenario>") -> None:
        self.reason, self.line, self.column, self.source = reason, line, column, source
        super().__init__(f"{source}:{line}:{column}: {reason}")


@dataclass(frozen=True, slots=True)
class Step:
    """One line: at or until a time, do or expect something.

    *when* is ``at`` (do it, or it must hold then), ``then`` (do it as soon as the step before has come true), ``by`` (it
    must come true before) or ``until`` (it must hold all the time since the step before).  *what* is the form of an action or a condition, *values* its arguments in order.
    """

    when: str
    time_us: int
    what: str
    values: tuple[Any, ...]
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, a network, a seed, what is done and expected when, and the trace that came of it (empty: not known)."""

    title: str = ""
    rules: tuple[str, ...] = ()
    layout: Layout = Layout()  # noqa: RUF009 - frozen
    settings: NodeSettings = NodeSettings(node_timeout_ms=2000)  # noqa: RUF009 - frozen
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of single nodes that differ, by name."""
    sentinels: SentinelLayout | None = None
    """Who watches the masters, where these are no cluster (docs/design/simulator.md)."""
    path: Path = field(default_factory=Path)
    seed: int = 1
    hidden: tuple[str, ...] = ()
    """Trace lines that contain one of these are left out."""
    steps: tuple[Step, ...] = ()
    end_us: int = 10_000_000
    after: tuple[Step, ...] = ()
    """What is expected when all is over."""
    converges: bool = True
    """Whether all views must be equal at the end."""
    breaks: tuple[str, ...] = ()
    """Rules that it breaks on purpose: it shows that the checkers see it."""
    trace: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    """The nodes, where they do not come of *layout* (a recorded state)."""
