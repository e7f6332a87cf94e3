"""Show growth between two snapshots per node, slot, prefix and hash tag, from the tables of key-slots."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from slotscope.options import Cluster, Html, TableOptions, options
from slotscope.runtime import cli
from slotscope.runtime.program import LATEST

if TYPE_CHECKING:
    from slotscope.reports.keyspace.comparison import ComparisonReport


@options
class Request(TableOptions):
    """Options of `slotscope compare`."""

    from_: Annotated[str | None, Parameter(name="--from")] = None
    """The same as BEFORE"""
    to: str | None = None
    """The same as AFTER"""
    cluster: Cluster = None
    html: Html = None


def run(*, root: str, before: str, after: str) -> ComparisonReport:
    """Return the changes from snapshot *before* to snapshot *after*; raises InputError if one is missing."""
    from slotscope.reports.keyspace.comparison import compare_reports
    from slotscope.reports.keyspace.report import load_report

    return compare_reports(load_report(root, before), load_report(root, after))


def command(before: str | None = None, after: str | None = None, request: Request = Request()) -> int | None:
    """Show growth between two snapshots per node, slot, prefix and hash tag; the default is the last two.

    Exit code 3 if one of them is partial.

    Parameters
    ----------
    before
        Name of the earlier snapshot. Default: the one before the later
    after
        Name of the later snapshot. Default: latest
    """
    from slotscope.reports.delivery import deliver
    from slotscope.runtime.storage.runs import KEY_JOBS, find_name, name_before

    after = find_name(request.root, after or request.to or LATEST, KEY_JOBS, request.cluster)
    before = before or request.from_ or name_before(request.root, after, KEY_JOBS)
    report = run(root=request.root, before=before, after=after)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    return cli.PARTIAL if report.partial_words else None


if __name__ == "__main__":
    cli.main(command)
