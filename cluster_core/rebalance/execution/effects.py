"""What an execution asks of the world, and what it is answered: the door between `Execution` and whoever does the IO."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from cluster_core.rebalance.execution.journal import Step
from cluster_core.rebalance.execution.reshard import Migrate, Refused, Send
from cluster_core.rebalance.execution.waits import ANSWER_S, NODE_TIMEOUT_DEFAULT_MS


@dataclass(frozen=True, slots=True)
class Look:
    """See what *nodes* say; answered with a `ClusterSight` after *within_s* at most."""

    nodes: tuple[str, ...]
    within_s: float = ANSWER_S


@dataclass(frozen=True, slots=True)
class Ask:
    """Send each command to its node, those of one node in their order; answered with a `Reply` each.

    A node has *within_s* for what is sent to it at once, MIGRATE is told to give up after *migrate_ms*.
    """

    commands: tuple[Send | Migrate, ...]
    within_s: float = ANSWER_S
    migrate_ms: int = NODE_TIMEOUT_DEFAULT_MS // 2


@dataclass(frozen=True, slots=True)
class Note:
    """Write *steps* into the journal; answered when they are safe."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Let *seconds* pass; a stop ends it early."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Clock:
    """Answered with seconds that only grow."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Answered with the milliseconds that 99 of 100 questions of a client took lately, at the master where that is longest; None if not known."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Show how far it is; *line* is one for a log."""

    line: str
    done: float
    """Share of the work, 0 to 1."""
    left_s: float | None = None


Effect = Look | Ask | Note | Wait | Clock | Latency | Tell


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server answered: text, a number or a list of bytes."""

    value: Any


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer: whether the command was carried out is not known."""

    text: str


Reply = Answered | Refused | Lost

T = TypeVar("T")
Steps = Generator[Effect, Any, T]
"""A piece of an execution: yields effects, is sent their answers, returns its result."""
