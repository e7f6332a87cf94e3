"""Files of INFO replies: JSON lines with a time and a node, or one reply as text (``redis-cli INFO > info.txt``).

A line is an object with a time (*time*, *ts_ns* …, as `cluster_core.formats.poll_lines` takes it), a node (*node*, *address* or
*port*), the reply (*persistence* or *info*) and, if it was asked, the value of CONFIG GET save (*save*).  ``slotscope collect --persistence``
writes such lines; other members are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import LINE_BYTES_MAX, TIME_NAMES, read_object
from cluster_core.instants import time_ns
from cluster_core.load.persistence import Persistence, read_persistence
from cluster_core.wire.resp import read_info
from slotscope.sources.files import expand, read_lines

TEXT_BYTES_MAX = 1 << 20
_NODE_NAMES = ("node", "address", "port")


def read_persistence_polls(patterns: list[str], *, bad: list[DecodeError] | None = None) -> list[Persistence]:
    """Return the newest poll of each node, ordered by node.

    A file that holds no such reply, or a line that is none, is a DecodeError with the number of the line as offset: added to *bad*,
    with which the rest of that file is left out, or raised if there is no such list.  A missing file is raised.
    """
    newest: dict[str, Persistence] = {}
    for file in expand(patterns):
        found = False
        try:
            for told in _read_file(file.path):
                found = True
                if told.node not in newest or newest[told.node].at_ms <= told.at_ms:
                    newest[told.node] = told
            if not found:
                raise DecodeError("no reply of INFO persistence in it", offset=0, source=file.path)
        except DecodeError as error:
            if bad is None:
                raise
            bad.append(error)
    return [newest[node] for node in sorted(newest)]


def _read_file(path: str) -> Iterator[Persistence]:
    for at, (number, raw) in enumerate(read_lines(path, LINE_BYTES_MAX)):
        if not at and not raw.lstrip().startswith(b"{"):
            yield from _read_text(path)
            return
        poll = _poll(read_object(raw, line=number, source=path))
        if poll is not None:
            yield poll


def _poll(told: dict[str, Any]) -> Persistence | None:
    text = next((told[name] for name in ("persistence", "info") if isinstance(told.get(name), str)), None)
    at_ns = time_ns(next((told[name] for name in TIME_NAMES if told.get(name) is not None), None))
    node = next((told[name] for name in _NODE_NAMES if isinstance(told.get(name), str | int)), "?")
    if text is None or at_ns is None:
        return None
    save = told.get("save")
    info = read_info(text.encode("utf-8", "surrogatepass"))
    return read_persistence(
        info, node=str(node)[:300], at_ms=at_ns // 1_000_000, save=save if isinstance(save, str) else None
    )


def _read_text(path: str) -> Iterator[Persistence]:
    """A reply of INFO with its section Server, which tells time and port."""
    data = b"\n".join(raw for _, raw in read_lines(path, LINE_BYTES_MAX))
    if len(data) > TEXT_BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes are too many for a reply of INFO", offset=0, source=path)
    info = read_info(data)
    time = info.get("server_time_usec", "")
    if not time.isdecimal() or len(time) > 18:
        raise DecodeError("it does not tell its time: keep the whole reply of INFO", offset=0, source=path)
    told = read_persistence(info, node=f":{info.get('tcp_port', '?')}", at_ms=int(time) // 1000, save=info.get("save"))
    if told is not None:
        yield told
