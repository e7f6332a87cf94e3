"""What ``fidelity`` is asked."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from cyclopts import Parameter

from slotscope.requests.options import Flag, Paths


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Request:
    """What to replay, from which inputs."""

    captures: str
    """Folder with recordings: bus.pcap, truth.jsonl and logs/PORT.log, each plain or gzip."""
    _: KW_ONLY
    scenario: Paths = ()
    """Only recordings whose folder has one of these names."""
    polls: int = 0
    """Also give every POLLS-th answer of CLUSTER NODES to the replay."""
    logs: Flag = False
    """Also give the logs to the replay."""
    every_input: Flag = False
    """Run each recording from the capture alone, with polls, with logs and with both; the last column says whether any is worse."""
    show: int = 0
    """Print the first SHOW wrong rows of each recording."""
    least: float = 0.0
    """End with exit code 3 if a recording is below this percentage."""
