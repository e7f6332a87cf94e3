"""Export keys and values of dumps as JSON, commands or Parquet, filtered by conditions."""

from __future__ import annotations

from slotscope.pipelines.keys.options import ExportOptions as Request
from slotscope.runtime import cli


def command(request: Request) -> int | None:
    """Write keys of dumps with their values: JSON lines, columns, or the commands that make them.

    Keys that no condition asks for cost no more than a glance.  Strings that are no text are written as base64: and their Base64 in
    JSON.  What is written is under its name when it is whole; after an interruption, the same command goes on with
    the parts that are missing.

    slotscope export --rdb dump.rdb --to resp --out - --match 'user:*' | redis-cli --pipe
    """
    from slotscope.pipelines.keys.export import export_dumps, say_to
    from slotscope.reports.export_text import export_lines
    from slotscope.reports.records import print_records
    from slotscope.runtime.progress import progress

    with progress("exporting"):
        manifest = export_dumps(request)
    print_records(manifest, lambda: export_lines(manifest), as_json=request.json, stream=say_to(manifest))
    return cli.PARTIAL if manifest["damaged"] or manifest["left_out"] or manifest["twins"] else None


if __name__ == "__main__":
    cli.main(command)
