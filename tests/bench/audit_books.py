"""Measures how long the job `audit_books` takes for a window of so many rows, and its memory.

    python -m tests.bench.audit_books --rows 500000,1000000,2000000

Starts a Cassandra of its own, writes an hour of rows with Spark, and audits it as `minutehand spark run` does, on two
cores. Rows are spread over the pollers and minutes; most were delivered, a tenth are fires of crons.
"""

import argparse
import json
import sys
import time
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cql.settings import StorageSettings
from spark.io.tables import Tables
from spark.jobs.audit_books import AUDIT_BOOKS
from spark.jobs.job import Context
from spark.transforms.books import counted
from tests.bench.spark_session import add_memory, local_spark
from tests.support.processes import deployment

CLIENT = "bench"
POLLERS = 64
START = datetime(2026, 11, 20, 9, tzinfo=UTC)
_START_MS = round(START.timestamp() * 1000)
_FOR_EVER = 1 << 28


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the reconcile job.")
    parser.add_argument("--rows", default="200000", metavar="N,...", help="rows of the window, several by comma")
    add_memory(parser)
    arguments = parser.parse_args()
    with local_spark(memory=arguments.memory) as local:
        for rows in map(int, arguments.rows.split(",")):
            with deployment(local.cassandra, local.directory) as built:
                print(json.dumps(_measure(local.session, built.storage, rows)), flush=True)
    return 0


def _measure(session: SparkSession, storage: StorageSettings, rows: int) -> dict[str, Any]:
    tables = Tables(session, storage.keyspace)
    begun = time.monotonic()
    _write(session, tables, rows)
    written = time.monotonic()
    print(f"{rows:,} rows written in {written - begun:.1f} s", file=sys.stderr, flush=True)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(f"{time.monotonic() - written:.1f} s: {line}")
        print(said[-1], file=sys.stderr, flush=True)

    context = Context(session=session, tables=tables, storage=storage, now=datetime.now(UTC), say=say)
    window = {"start": START, "end": START + timedelta(hours=1)}
    arguments = Namespace(clients=[], output=None, repair=False, again_after=0.0, **window)
    report = AUDIT_BOOKS.run(context, arguments)
    took = time.monotonic() - written
    (client,) = (one for one in report["clients"] if one["client_id"] == CLIENT)
    assert client["counts"]["accepted"] == rows, client["counts"]
    assert client["findings"] == {"lost-outcome": 1}, client["findings"]
    return {
        "rows": rows,
        "seconds": round(took, 1),
        "rows_a_second": round(rows / took),
        "write_seconds": round(written - begun, 1),
        "memory_mb": _peak_mb(session),
        "said": said,
    }


def _write(session: SparkSession, tables: Tables, rows: int) -> None:
    """Write an hour of rows, one of which has lost its outcome, and all that belongs to them."""
    tables.append(
        session.createDataFrame(
            [(CLIENT, POLLERS, POLLERS, "active", "{}", 1)],
            "client_id string, poller_quota int, poller_ceiling int, state string, settings string, revision bigint",
        ),
        "clients",
    )
    pollers = session.range(POLLERS).select(
        F.lit(CLIENT).alias("client_id"),
        F.col("id").cast("int").alias("poller_id"),
        F.lit(1).cast("bigint").alias("epoch"),
        F.lit(_FOR_EVER).cast("bigint").alias("watermark"),
        F.lit(True).alias("lagging"),
    )
    tables.append(pollers, "pollers")
    made = _rows(session, rows)
    tables.append(made, "schedules")
    ended = made.withColumn("state", F.coalesce("state", F.lit("delivered"))).withColumn("settled", F.lit(True))
    kept = counted(ended).withColumn("hour", F.lit(START)).persist()
    stale = F.when(F.col("open") > 0, F.lit(0)).otherwise(F.col("version"))
    whole = kept.drop("settled", "stamps").withColumn("epoch", F.lit(1).cast("bigint")).withColumn("version", stale)
    names = ("accepted", "delivered", "failed", "cancelled", "skipped", "open")
    tables.append(
        whole.select("*", *(F.col(name).cast("int").alias(f"{name}_") for name in names))
        .drop(*names)
        .withColumnsRenamed({f"{name}_": name for name in names})
        .drop("edits"),
        "minute_balance",
    )
    tables.append(kept.select("client_id", "hour", "minute", "poller_id"), "occupied_minutes")
    kept.unpersist()


def _rows(session: SparkSession, rows: int) -> DataFrame:
    number = F.col("id")
    poller, minute = (number % POLLERS).cast("int"), (number / POLLERS).cast("long") % 60
    due_ms = _START_MS + minute * 60_000 + (number * 7919) % 60_000
    text = F.concat(
        F.lpad(F.hex("due_ms"), 12, "0"),
        F.lit("8"),
        F.lpad(F.hex(F.shiftright("poller_id", 4)), 3, "0"),
        F.lpad(F.hex(F.lit(0x80) + F.shiftleft(F.col("poller_id").bitwiseAND(F.lit(15)), 2)), 2, "0"),
        F.lpad(F.hex("id"), 14, "0"),
    )
    dashed = F.regexp_replace(F.lower(text), "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    state = (
        F.when(number == 0, F.lit(None))
        .when(number % 100 == 1, "failed")
        .when(number % 100 == 2, "cancelled")
        .otherwise("delivered")
    )
    due = F.timestamp_millis("due_ms")
    fire = number % 10 == 3
    return (
        session.range(0, rows, 1, 8)
        .select(number, poller.alias("poller_id"), due_ms.alias("due_ms"))
        .select(
            F.lit(CLIENT).alias("client_id"),
            "poller_id",
            F.date_trunc("minute", due).alias("minute"),
            due.alias("due"),
            dashed.alias("schedule_id"),
            F.lit(3).cast("bigint").alias("version"),
            F.lit(None).cast("string").alias("edits"),
            F.lit("call").alias("kind"),
            F.lit("POST").alias("method"),
            F.lit("https://receiver.example/callbacks/orders").alias("url"),
            F.lit("[]").alias("headers"),
            F.lit(b"x" * 200).alias("body"),
            F.lit("{}").alias("options"),
            F.when(fire, F.concat(F.lit("cron-"), number)).alias("cron_id"),
            F.when(fire, due).alias("nominal_due"),
            F.timestamp_millis(F.lit(_START_MS - 3_600_000)).alias("created_at"),
            state.alias("state"),
            F.lit(1).alias("attempts"),
            due.alias("first_attempt_at"),
            due.alias("finished_at"),
            F.lit(204).alias("last_status"),
            F.lit("bench@1").alias("fired_by"),
            F.lit(1).cast("bigint").alias("fired_epoch"),
        )
    )


def _peak_mb(session: SparkSession) -> int:
    """The peak memory of this process plus that of Spark's Java, since their start."""
    java = session._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    peaks = (Path(f"/proc/{pid}/status").read_text(encoding="utf-8") for pid in ("self", java))
    return sum(int(text.split("VmHWM:")[1].split()[0]) for text in peaks) // 1024


if __name__ == "__main__":
    sys.exit(main())
