"""The parts of a split as a person reads them."""

from __future__ import annotations

from typing import Any

from slotscope.runtime.text import count, plural, printable, size

SLOTS_SHOWN = 60


def split_lines(manifest: dict[str, Any], folder: str) -> list[str]:
    """Return the report of a split: what was read, one line a part, what is in no part."""
    sources, files = manifest["sources"], manifest["files"]
    keys = sum(source["keys"] for source in sources)
    after = f"plan {manifest['plan']}" if manifest["plan"] else "the topology"
    lines = [
        f"{plural(len(sources), 'dump')}, {plural(keys, 'key')}: {plural(len(files), 'part')} after {after}, in {folder}"
    ]
    for source in sources:
        if source["bad"] is not None:
            bad = source["bad"]
            lines.append(
                f"damaged: {source['file']}: offset {bad['offset']}: {bad['reason']}; the keys before it are in the parts"
            )
        if source["hollow"]:
            lines.append(
                f"in no part: {plural(source['hollow'], 'key')} of {source['file']} without elements, which a server drops when it loads"
            )
    for file in files:
        who = file["address"] or file["owner"] or "nobody"
        slots = file["slots"] if len(file["slots"]) <= SLOTS_SHOWN else file["slots"][:SLOTS_SHOWN] + "…"
        lines.append(
            f"  {file['file']}  {who}  {count(file['keys'])} keys  {size(file['bytes'])}  slots {slots or 'none'}"
        )
    left_out = sorted({name for source in sources for name in source["left_out"]})
    if left_out:
        lines.append(f"in no part: {', '.join(left_out)} (of the whole dump, not of a part)")
    return [printable(line) for line in lines]
