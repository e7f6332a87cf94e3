"""Requests of an execution and their answers: the interface between `Execution` and the IO code."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from cluster_core.rebalance.execution.journal import Step

NODE_TIMEOUT_DEFAULT_MS: Final = 15_000
"""cluster-node-timeout where a server does not report it: the default of the servers."""
ANSWER_S: Final = 5.0
"""Timeout of one look at one node; looks repeat until the patience ends."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send the command *arguments*, name first, to *node*."""

    node: str
    arguments: tuple[str | bytes, ...]


@dataclass(frozen=True, slots=True)
class Migrate:
    """MIGRATE *keys* from *source* to the address of *target*, database 0, with REPLACE if *replace*."""

    source: str
    target: str
    keys: tuple[bytes, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Read the state of *nodes*; answered with a `ClusterSight` within *within_s*."""

    nodes: tuple[str, ...]
    within_s: float = ANSWER_S


@dataclass(frozen=True, slots=True)
class Ask:
    """Send commands to their nodes, in order per node; answered with one `Reply` each.

    *within_s* limits each node's commands together; MIGRATE times out after *migrate_ms*.
    """

    commands: tuple[Send | Migrate, ...]
    within_s: float = ANSWER_S
    migrate_ms: int = NODE_TIMEOUT_DEFAULT_MS // 2


@dataclass(frozen=True, slots=True)
class Note:
    """Append *steps* to the journal; answered when stored."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait *seconds*; a stop ends the wait early."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Clock:
    """Answered with monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Answered with the recent p99 latency of clients in milliseconds, at the slowest master; None if unknown."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Show progress: a *line*, the share that is *done* (0 to 1), the estimated seconds left."""

    line: str
    done: float
    left_s: float | None = None


Effect = Look | Ask | Note | Wait | Clock | Latency | Tell


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of a server: text, a number or a list of bytes."""

    value: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """An error of the server."""

    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer: the command may have run."""

    text: str


Reply = Answered | Refused | Lost

T = TypeVar("T")
Steps = Generator[Effect, Any, T]
"""A part of an execution: yields effects, receives their answers, returns its result."""
