"""Measures the speed of the bulk load, and its cost for each process.

    python -m tests.bench.bulk_load --rows 200000

Starts a Cassandra of its own and loads Parquet as `minutehand spark run` does, on two cores: an hour of rows, in no
order, with bodies of about 200 bytes. Then it loads them again, which adds nothing.

    python -m tests.bench.bulk_load --rows 300000 --rate 5000 --beside 100

measures how late calls of the same client are alone, and then beside the load.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.io.tables import Tables
from spark.jobs.job import Context
from spark.program import parse
from tests.bench import phases
from tests.bench.spark_session import LocalSpark, add_memory, local_spark
from tests.support.processes import Deployment, deployment

CLIENT = "bench"
POLLERS = 8
ALONE_SECONDS = 20.0
LEAD_SECONDS = 5.0
UNLIMITED = "10000000"


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the bulk load.")
    parser.add_argument("--rows", default="200000", metavar="N,...", help="rows to load, several by comma")
    parser.add_argument("--rate", default=UNLIMITED, help="as the job takes it; without it: none")
    parser.add_argument("--minutes", type=int, default=60, help="over which the rows are due")
    parser.add_argument("--beside", type=int, default=0, metavar="CALLS", help="calls a second that go on meanwhile")
    add_memory(parser)
    arguments = parser.parse_args()
    with local_spark(memory=arguments.memory) as local:
        for rows in map(int, arguments.rows.split(",")):
            with deployment(local.cassandra, local.directory) as built:
                built.start_api()
                key = built.register(CLIENT, poller_quota=POLLERS)
                path = f"{local.directory}/{rows}.parquet"
                _write(local.session, path, rows, arguments.minutes)
                measure = partial(_measure, local, built, path, arguments.rate)
                if arguments.beside:
                    built.start_node("bench-1")
                    bench = phases.Bench(deployment=built, key=key, directory=local.directory, pids={})
                    seconds = rows / float(arguments.rate)
                    print(json.dumps(_beside(bench, measure, rate=arguments.beside, seconds=seconds)), flush=True)
                    continue
                built.stop_one("api")
                for run in ("first", "again"):
                    print(json.dumps({"run": run, **measure()}), flush=True)
    return 0


def _beside(bench: phases.Bench, measure: Callable[[], dict[str, Any]], *, rate: int, seconds: float) -> dict[str, Any]:
    """Run a load, and measure how late calls are before and during it."""

    def lateness(seconds: float) -> dict[str, Any]:
        found = phases.calls(bench, count=round(rate * seconds), over_seconds=seconds, lead_seconds=LEAD_SECONDS)
        return {name: found[name] for name in ("created", "lateness_ms", "lost", "repeated", "early")}

    alone = lateness(ALONE_SECONDS)
    with ThreadPoolExecutor(1) as meanwhile:
        calls = meanwhile.submit(lateness, seconds)
        figures = measure()
        return {**figures, "calls_alone": alone, "calls_beside": calls.result()}


def _write(session: SparkSession, path: str, rows: int, minutes: int) -> None:
    start = round((datetime.now(UTC) + timedelta(hours=1)).timestamp()) * 1000
    made = session.range(rows, numPartitions=2).select(
        F.format_string("order-%d", "id").alias("order_id"),
        F.timestamp_millis(F.lit(start) + F.pmod(F.xxhash64("id"), F.lit(minutes * 60_000))).alias("due"),
        F.lit("https://receiver.example/hooks/expire").alias("url"),
        F.format_string('{"order": %d, "text": "%s"}', "id", F.lit("x" * 180)).alias("json"),
        F.format_string("order-%d", "id").alias("label"),
    )
    made.write.parquet(path)


def _measure(local: LocalSpark, built: Deployment, path: str, rate: str) -> dict[str, Any]:
    gateway = local.session.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc.pid
    command = ["bulk_load", "--input", path, "--format", "parquet", "--client", CLIENT, "--key", "order_id"]
    job, known = parse([*command, "--rate", rate], program="bench")
    context = Context(
        session=local.session,
        tables=Tables(local.session, built.storage.keyspace),
        storage=built.storage,
        now=datetime.now(UTC),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    before, begun = _cpu(java, local.cassandra_pid), time.monotonic()
    report = job.run(context, known)
    took, after = time.monotonic() - begun, _cpu(java, local.cassandra_pid)
    rows = report["rows"]
    return {
        "rows": rows,
        **{name: report[name] for name in ("added", "present", "rejected")},
        "seconds": round(took, 1),
        "rows_a_second": round(rows / took),
        "rows_a_second_loading": report["rows_per_second"],
        "cpu_seconds_per_1000": {name: round((after[name] - before[name]) / rows * 1000, 4) for name in after},
    }


def _cpu(java: int, cassandra: int) -> dict[str, float]:
    """CPU seconds so far of the driver, Spark's Java, the Python workers below it, Cassandra."""
    below: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            spent[int(entry.name)] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
            # A daemon's account includes the workers that have ended.
            spent[-int(entry.name)] = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    workers, waiting = 0.0, list(below.get(java, []))
    while waiting:
        one = waiting.pop()
        workers += spent[one] + spent[-one]
        waiting += below.get(one, [])
    return {"driver": spent[os.getpid()], "java": spent[java], "workers": workers, "cassandra": spent[cassandra]}


if __name__ == "__main__":
    sys.exit(main())
