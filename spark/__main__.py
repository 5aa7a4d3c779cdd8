"""`spark-submit spark/__main__.py JOB ...`: how to reach Cassandra is the connector's own `--conf` settings, the
keyspace from `--conf spark.minutehand.keyspace`."""

import sys

from pyspark import SparkConf

from scheduler_service.runtime.clock import SystemClock
from spark.command_line import parse
from spark.program import run
from spark.session import submitted_settings


def main() -> int:
    job, arguments = parse(sys.argv[1:], program="spark")
    return run(job, arguments, submitted_settings(SparkConf()), clock=SystemClock())


if __name__ == "__main__":
    sys.exit(main())
