"""What ``fidelity`` is asked."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.options import Flag, Paths, options


@options
class Request:
    """What to replay, from which inputs."""

    captures: str = field(kw_only=False)
    """Folder with recordings: bus.pcap, truth.jsonl and logs/PORT.log, each plain or gzip."""
    scenario: Paths = ()
    """Only recordings whose folder has one of these names."""
    polls: int = 0
    """Also give every POLLS-th answer of CLUSTER NODES to the replay."""
    log: Annotated[Flag, Parameter(alias="--logs")] = False
    """Also give the logs to the replay."""
    every_input: Flag = False
    """Run each recording from the capture alone, with polls, with logs and with both; the last column says whether any is worse."""
    show: int = 0
    """Print the first SHOW wrong rows of each recording."""
    json: Flag = False
    """Print JSON instead of lines."""
    least: float = 0.0
    """End with exit code 3 if a recording is below this percentage."""
