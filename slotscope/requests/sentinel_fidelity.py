"""What ``sentinel-fidelity`` is asked."""

from __future__ import annotations

from dataclasses import field

from slotscope.requests.options import Flag, options


@options
class Request:
    """What to replay."""

    captures: str = field(kw_only=False)
    """Folder with recordings: resp.pcap, truth.jsonl, events.jsonl and logs/PORT.log, each plain or gzip."""
    show: int = 0
    """Print the first SHOW wrong fields and missing events of each."""
    json: Flag = False
    """Print JSON instead of lines."""
    least: float = 0.0
    """End with exit code 3 if a recording is below this percentage, or misses an event, from the capture or from all."""
