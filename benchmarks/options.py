"""What the command line of the benchmarks may set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """*quick* takes small data and few rounds, to see that all runs; the dumps and the capture replace the generated ones."""

    quick: bool = False
    redis_dump: Path | None = None
    cluster_dump: Path | None = None
    capture: Path | None = None
