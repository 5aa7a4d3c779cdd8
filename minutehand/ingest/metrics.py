"""The metrics of an ingest process."""

from typing import Final

from minutehand.ingest.counts import IngestCounts
from scheduler_service.runtime.metrics import Kind, Metric

METRICS: Final[tuple[Metric[IngestCounts], ...]] = (
    Metric(
        "minutehand_ingest_records_total",
        Kind.COUNTER,
        "Records by what became of them; a repeated plan counts its records again.",
        lambda counts: counts.records,
        labels=("result",),
    ),
    Metric(
        "minutehand_ingest_lag_records",
        Kind.GAUGE,
        "Records behind the ends of this process's partitions that are not handled.",
        lambda counts: counts.lag,
    ),
    Metric(
        "minutehand_ingest_held_bytes",
        Kind.GAUGE,
        "Memory of records that were fetched and are not handled.",
        lambda counts: counts.held_bytes,
    ),
    Metric(
        "minutehand_ingest_partitions",
        Kind.GAUGE,
        "Partitions that the group has given to this process.",
        lambda counts: counts.assigned,
    ),
    Metric(
        "minutehand_ingest_waiting",
        Kind.GAUGE,
        "Partitions whose records wait now for an answer of the API or Kafka: denied, until somebody acts, or passing.",
        lambda counts: counts.waiting_now(),
        labels=("why",),
    ),
    Metric(
        "minutehand_ingest_missing_topics",
        Kind.GAUGE,
        "Topics of the settings that Kafka does not have.",
        lambda counts: len(counts.missing_topics),
    ),
    Metric(
        "minutehand_ingest_waits_total",
        Kind.COUNTER,
        "Requests to the API or Kafka that decided nothing and are repeated: denied, until somebody acts, or passing.",
        lambda counts: counts.later,
        labels=("why",),
    ),
    Metric(
        "minutehand_ingest_plans_repeated_total",
        Kind.COUNTER,
        "Batches found unfinished when a partition was taken, and repeated.",
        lambda counts: counts.repeated_plans,
    ),
)
