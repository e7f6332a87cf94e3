"""An Airflow DAG (Airflow 3, TaskFlow): every Monday snapshots of a fleet, then plans, then a mail if clusters need to move slots.

Copy this file into the folder of your DAGs.  The worker needs ``slotscope`` in HOME; nothing here changes a cluster.
"""

from __future__ import annotations

import logging
import subprocess
from datetime import datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

SLOTSCOPE = "/opt/slotscope/.venv/bin/slotscope"
ROOT = "/mnt/slotscope/tables"
MANIFEST = "/etc/slotscope/clusters.toml"
OK, BAD_INPUT, PARTIAL, NEW_PLAN, IMPOSSIBLE = 0, 2, 3, 10, 13


def slotscope(*arguments: str, allowed: tuple[int, ...]) -> tuple[int, str]:
    """Run one command on the fleet; bad input is not retried."""
    ended = subprocess.run(
        [SLOTSCOPE, *arguments, "--root", ROOT, "--manifest", MANIFEST], stdout=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode == BAD_INPUT:
        raise AirflowFailException(f"slotscope {arguments[0]}: bad input, see the log")
    if ended.returncode not in allowed:
        raise AirflowException(f"slotscope {arguments[0]} ended with {ended.returncode}")
    return ended.returncode, ended.stdout


@dag(
    schedule="30 3 * * 1",
    start_date=datetime(2026, 1, 5),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10), "execution_timeout": timedelta(hours=4)},
    tags=["slotscope"],
)
def slotscope_plan() -> None:
    """Snapshots, plans, mail."""

    @task
    def snapshots() -> None:
        slotscope("key-slots", allowed=(OK, PARTIAL))

    @task
    def plans() -> str:
        """Return the text about clusters that need a person, empty without any."""
        code, text = slotscope("plan", "make", "--if-needed", allowed=(OK, PARTIAL, NEW_PLAN, IMPOSSIBLE))
        return text if code else ""

    @task.short_circuit
    def is_needed(text: str) -> bool:
        return bool(text)

    @task
    def tell(text: str) -> None:
        """Send your mail here."""
        logging.getLogger(__name__).warning("%s", text)

    text = plans()
    snapshots() >> text >> is_needed(text) >> tell(text)


slotscope_plan()
