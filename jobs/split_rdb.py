"""Cut dumps into one file per planned master.

Slots follow a plan or a topology.  Keys are copied byte for byte.
"""

from __future__ import annotations

import sys

from slotscope.pipelines.keys.options import SplitOptions as Request
from slotscope.runtime import cli


def command(request: Request) -> int | None:
    """Cut dumps by slots into the dumps that the planned masters would load.

    Writes OUT/NODE.rdb for each master, byte for byte what the dumps hold of its slots, with all function libraries; then
    OUT/split.json, which lists them.  A dump that is damaged is not cut at all; with --mode permissive what stands before the
    damage is, and bronze/bad_records names the place.
    """
    from slotscope.pipelines.keys.split import split_dumps
    from slotscope.reports.records import print_records
    from slotscope.reports.split_text import split_lines
    from slotscope.runtime.progress import progress

    with progress("splitting"):
        manifest = split_dumps(request)
    print_records(manifest, lambda: split_lines(manifest, request.out), as_json=request.json, stream=sys.stdout)
    is_damaged = any(source["bad"] is not None for source in manifest["sources"])
    return cli.PARTIAL if is_damaged or any(file["owner"] is None for file in manifest["files"]) else None


if __name__ == "__main__":
    cli.main(command)
