"""What ``sentinel-fidelity`` is asked."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Request:
    """What to replay."""

    captures: str
    """Folder with recordings: resp.pcap, truth.jsonl, events.jsonl and logs/PORT.log, each plain or gzip."""
    _: KW_ONLY
    show: int = 0
    """Print the first SHOW wrong fields and missing events of each."""
    least: float = 0.0
    """End with exit code 3 if a recording is below this percentage, or misses an event, from the capture or from all."""
