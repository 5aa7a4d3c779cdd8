"""`spark-submit spark/__main__.py JOB ...`: how to reach Cassandra is the connector's own `--conf` settings, the
keyspace and the files of the login `--conf spark.minutehand.*` (`io.submitted`)."""

import sys

from pyspark import SparkConf, SparkContext

from membership.errors import MinutehandError
from scheduler_service.runtime.clock import SystemClock
from spark.program import parse, run
from spark.session import submitted_settings


def main() -> int:
    job, arguments = parse(sys.argv[1:], program="spark")
    # What spark-submit was told is with Java; until that is reached a SparkConf is empty.
    SparkContext._ensure_initialized()
    try:
        return run(job, arguments, submitted_settings(SparkConf()), clock=SystemClock())
    except (MinutehandError, ValueError) as error:
        sys.stderr.write(f"{job.name}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
