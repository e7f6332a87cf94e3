"""Dagster definitions: every Monday snapshots of a fleet, then its plans, with the clusters that need to move slots in the metadata.

The code location needs ``slotscope`` in HOME; nothing here changes a cluster.
"""

import subprocess

import dagster as dg

SLOTSCOPE = "/opt/slotscope/.venv/bin/slotscope"
ROOT = "/mnt/slotscope/tables"
MANIFEST = "/etc/slotscope/clusters.toml"
BAD_INPUT, PARTIAL, NEW_PLAN, IMPOSSIBLE = 2, 3, 10, 13


def slotscope(*arguments: str, allowed: tuple[int, ...]) -> tuple[int, str]:
    """Run one command on the fleet; bad input is not retried."""
    ended = subprocess.run(
        [SLOTSCOPE, *arguments, "--root", ROOT, "--manifest", MANIFEST], stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode not in (0, *allowed):
        retried = ended.returncode != BAD_INPUT
        raise dg.Failure(f"slotscope {arguments[0]} ended with {ended.returncode}", allow_retries=retried)
    return ended.returncode, ended.stdout


@dg.asset(group_name="slotscope", retry_policy=dg.RetryPolicy(max_retries=1, delay=600))
def snapshots() -> dg.MaterializeResult:
    """Keys and memory by slot of every cluster."""
    code, text = slotscope("key-slots", allowed=(PARTIAL,))
    return dg.MaterializeResult(metadata={"exit_code": code, "clusters": dg.MetadataValue.md(f"```\n{text}\n```")})


@dg.asset(group_name="slotscope", deps=[snapshots], retry_policy=dg.RetryPolicy(max_retries=1, delay=600))
def plans() -> dg.MaterializeResult:
    """Plans of the clusters that need to move slots."""
    code, text = slotscope("plan", "make", "--if-needed", allowed=(PARTIAL, NEW_PLAN, IMPOSSIBLE))
    return dg.MaterializeResult(metadata={"exit_code": code, "due": dg.MetadataValue.md(f"```\n{text}\n```")})


weekly = dg.define_asset_job("slotscope_plan", selection=[snapshots, plans])
defs = dg.Definitions(
    assets=[snapshots, plans],
    jobs=[weekly],
    schedules=[dg.ScheduleDefinition(job=weekly, cron_schedule="30 3 * * 1")],
)
