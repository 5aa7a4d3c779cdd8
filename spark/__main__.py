"""`spark-submit spark/__main__.py JOB ...`: the connector's own `--conf` settings say how to reach Cassandra; `--conf
spark.minutehand.*` names the keyspace and the files of the login (`io.submitted`)."""

import sys

from pyspark import SparkConf, SparkContext

from membership.errors import MinutehandError
from scheduler_service.runtime.clock import SystemClock
from spark.program import REFUSED, is_refused, parse, run
from spark.session import submitted_settings


def main() -> int:
    job, arguments = parse(sys.argv[1:], program="spark")
    if is_refused(job, arguments):
        return REFUSED
    # Java has the settings of spark-submit; a SparkConf is empty until the gateway to it is open.
    SparkContext._ensure_initialized()
    try:
        return run(job, arguments, submitted_settings(SparkConf()), clock=SystemClock())
    except (MinutehandError, ValueError) as error:
        sys.stderr.write(f"{job.name}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
