"""Cut dumps into one file per planned master.

Slots follow a plan or a topology.  Keys are copied byte for byte.
"""

from __future__ import annotations

import sys
from typing import Any

from slotscope.pipelines.keys.options import SplitOptions as Request
from slotscope.runtime import cli
from slotscope.runtime.text import count, plural, printable, size

SLOTS_SHOWN = 60


def command(request: Request) -> None:
    """Cut dumps by slots into one dump for each planned master.

    Writes OUT/NODE.rdb for each master: the records of its slots, byte for byte, and all function libraries; then OUT/split.json,
    the list of files.  A damaged dump is refused.
    """
    from slotscope.pipelines.keys.split import split_dumps
    from slotscope.reports.records import print_records
    from slotscope.runtime.progress import progress

    with progress("splitting"):
        manifest = split_dumps(request)
    print_records(manifest, lambda: split_lines(manifest, request.out), as_json=request.json, stream=sys.stdout)


def split_lines(manifest: dict[str, Any], folder: str) -> list[str]:
    """Return the report of a split: the input, one line a part, the records in no part."""
    sources, files = manifest["sources"], manifest["files"]
    keys = sum(source["keys"] for source in sources)
    after = f"plan {manifest['plan']}" if manifest["plan"] else "the topology"
    lines = [
        f"{plural(len(sources), 'dump')}, {plural(keys, 'key')}: {plural(len(files), 'part')} after {after}, in {folder}"
    ]
    for source in sources:
        if source["hollow"]:
            lines.append(
                f"in no part: {plural(source['hollow'], 'key')} of {source['file']} without elements, which a server drops when it loads"
            )
    for file in files:
        who = file["address"] or file["owner"]
        slots = file["slots"] if len(file["slots"]) <= SLOTS_SHOWN else file["slots"][:SLOTS_SHOWN] + "…"
        lines.append(
            f"  {file['file']}  {who}  {count(file['keys'])} keys  {size(file['bytes'])}  slots {slots or 'none'}"
        )
    left_out = sorted({name for source in sources for name in source["left_out"]})
    if left_out:
        lines.append(f"in no part: {', '.join(left_out)} (of the whole dump, not of a part)")
    return [printable(line) for line in lines]


if __name__ == "__main__":
    cli.main(command)
