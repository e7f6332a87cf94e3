"""Export keys and values of dumps as JSON or commands, filtered by conditions."""

from __future__ import annotations

from typing import Any

from slotscope.pipelines.keys.options import ExportOptions as Request
from slotscope.runtime import cli
from slotscope.runtime.text import count, plural, printable, size


def command(request: Request) -> int | None:
    """Write keys of dumps with their values: JSON lines, or the commands that make them.

    Excluded keys are skipped without decoding.  In JSON, binary strings are written as base64: and their Base64.  The output gets its
    name when it is complete.

    slotscope export --rdb dump.rdb --to resp --out - --match 'user:*' | redis-cli --pipe
    """
    from slotscope.pipelines.keys.export import export_dumps, report_stream
    from slotscope.reports.records import print_records
    from slotscope.runtime.progress import progress

    with progress("exporting"):
        manifest = export_dumps(request)
    print_records(manifest, lambda: export_lines(manifest), as_json=request.json, stream=report_stream(manifest))
    return cli.PARTIAL if manifest["damaged"] or manifest["left_out"] else None


def export_lines(manifest: dict[str, Any]) -> list[str]:
    """Return the counts of written records, and of those that the format or target cannot represent."""
    where = "" if manifest["out"] == "-" else f" in {manifest['out']}"
    lines = [
        f"{plural(manifest['keys'], 'key')} of {count(manifest['seen'])}, "
        f"{size(manifest['bytes'])} of {manifest['to']}{where}"
    ]
    lines += [
        f"damaged: {bad['source']}: offset {bad['offset']}: {bad['reason']}; the keys before it were written"
        for bad in manifest["damaged"]
    ]
    lines += [
        f"not read: {path}: {newest} holds the same data, as new or newer" for path, newest in manifest["older"].items()
    ]
    lines += [f"left out: {plural(number, 'key')}: {why}" for why, number in manifest["left_out"].items()]
    if manifest["not_text"]:
        lines.append(f"{plural(manifest['not_text'], 'string')} of no text: written as base64: and the Base64")
    if manifest["hollow"]:
        lines.append(
            f"left out: {plural(manifest['hollow'], 'key')} without elements, which a server drops when it loads"
        )
    if manifest["libraries"]:
        lines.append(f"with {_libraries(manifest['libraries'])}: FUNCTION LOAD REPLACE")
    if manifest["functions"] > manifest["libraries"]:
        why = "a server before 7.0 has none, and an export of chosen keys holds keys alone"
        lines.append(
            f"not written: {_libraries(manifest['functions'] - manifest['libraries'])}"
            f": {why if manifest['to'] == 'resp' else 'they are no keys'}"
        )
    if manifest["to"] == "resp" and any(manifest["recorded"].values()):
        lines.append("not written: idle times and frequencies, which commands do not carry")
    return [printable(line) for line in lines]


def _libraries(number: int) -> str:
    return plural(number, "function library", "function libraries")


if __name__ == "__main__":
    cli.main(command)
