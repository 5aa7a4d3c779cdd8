"""Ids decoded by columns agree with the domain's own decoding."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scheduler_service.domain.ids import MAX_DUE, MAX_POLLERS, compose_schedule_id
from spark.transforms.rows import due_of, poller_of
from tests.spark.frames import frame_of

DUES = (0, 1, 999, 1_795_300_000_123, MAX_DUE // 2)
POLLERS = (0, 1, 15, 16, 255, 256, MAX_POLLERS - 1)
TAILS = (0, 1, (1 << 58) - 1, 0x2AAAAAAAAAAAAAA)


def test_an_id_names_its_due_and_its_poller(spark: SparkSession) -> None:
    wanted = [
        (str(compose_schedule_id(due=due, poller_id=poller, tail=tail)), due, poller)
        for due in DUES
        for poller in POLLERS
        for tail in TAILS
    ]
    frame = frame_of(spark, [(one[0],) for one in wanted], "id string")
    read = frame.select("id", F.unix_millis(due_of(F.col("id"))), poller_of(F.col("id"))).collect()
    assert sorted(map(tuple, read)) == sorted(wanted)
