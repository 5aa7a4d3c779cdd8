"""Runs one job as the command line does, over a deployment's tables."""

import time
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from minutehand.client import ClientScope
from spark.io.tables import Tables
from spark.jobs.job import Context, Report
from spark.program import parse
from tests.support.processes import Deployment


def run_job(spark: SparkSession, cluster: Deployment, *arguments: str, now: datetime | None = None) -> Report:
    """Run the job and return its report. `now`: the time at which the job believes it begins. The text for people is
    formatted, too.
    """
    job, known = parse(arguments, program="test")
    context = Context(
        session=spark,
        tables=Tables(spark, cluster.storage.keyspace),
        storage=cluster.storage,
        now=datetime.now(UTC) if now is None else now,
        say=lambda line: None,
    )
    report = job.run(context, known)
    assert all(isinstance(line, str) for line in job.render(report))
    return report


def await_state(client: ClientScope, schedule_id: str, state: str) -> None:
    deadline = time.monotonic() + 60
    while client.schedules.get(schedule_id).state != state:
        assert time.monotonic() < deadline, f"{schedule_id} is not {state}"
        time.sleep(0.3)
