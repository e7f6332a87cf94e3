"""An Airflow DAG (Airflow 3, provider apache-airflow-providers-apache-spark): every Monday a snapshot, then a plan if one is needed.

The folder of this file is no part of the project's packages; copy it into the folder of your DAGs.  `make zip` builds the zip that
it submits.  In client mode spark-submit ends with the exit code of the job, which cluster mode hides.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException

HOME = "/opt/slotscope"
ROOT = "/mnt/slotscope/tables"
DUMPS = "/mnt/backups/cache/{{ ds }}"
NEW_PLAN = 10
SPARK = {
    "conn_id": "spark_default",
    "py_files": f"{HOME}/build/slotscope.zip",
    "properties_file": f"{HOME}/conf/spark-cluster.conf",
    "conf": {"spark.submit.deployMode": "client"},
}


class PlanOperator(SparkSubmitOperator):
    """``rebalance-plan --if-needed``: exit code 10, there is a new plan, is no failure; returns whether there is one."""

    def execute(self, context: Any) -> bool:
        """Submit, and look at the exit code that the hook puts into its error."""
        try:
            super().execute(context)
        except AirflowException as error:
            if f"Error code is: {NEW_PLAN}." not in str(error):
                raise
            return True
        return False


with DAG(
    dag_id="slotscope_plan",
    description="Which slots should move?",
    schedule="30 3 * * 1",
    start_date=datetime(2026, 1, 5),
    catchup=False,
    max_active_runs=1,  # two runs never write the same tables
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10), "execution_timeout": timedelta(hours=4)},
    tags=["slotscope"],
) as dag:
    snapshot = SparkSubmitOperator(
        task_id="snapshot",
        name="slotscope key-slots",
        application=f"{HOME}/jobs/key_slots.py",
        application_args=["--root", ROOT, "--rdb", f"{DUMPS}/*.rdb", "--topology", f"{DUMPS}/nodes.txt"],
        **SPARK,
    )

    plan = PlanOperator(
        task_id="plan",
        name="slotscope plan make",
        application=f"{HOME}/jobs/rebalance_plan.py",
        application_args=["--root", ROOT, "--if-needed"],
        retries=0,
        **SPARK,
    )

    @task.short_circuit
    def is_new(found: bool) -> bool:
        """End here when there is nothing to do."""
        return found

    @task
    def tell() -> None:
        """Put your own way of telling people here; nothing is carried out without a person."""
        logging.getLogger(__name__).warning("new plan: see %s/reports", ROOT)

    snapshot >> plan
    is_new(plan.output) >> tell()
