"""Progress of pollers, and which partitions are settled."""

from pyspark.sql import SparkSession

from spark.transforms.pollers import positions, with_settled
from tests.spark.frames import START, at, found, frame

MINUTE = round(START.timestamp()) // 60


def test_a_poller_is_where_its_row_or_its_owners_low_watermark_says(spark: SparkSession) -> None:
    def poller(poller_id: int, watermark: int, *, lagging: bool, owner: int | None) -> dict[str, object]:
        node = {} if owner is None else {"owner_node": "node", "owner_incarnation": owner}
        whole = {"client_id": "shop", "poller_id": poller_id, "watermark": MINUTE + watermark, "lagging": lagging}
        return whole | node

    pollers = frame(
        spark,
        "client_id string, poller_id int, owner_node string, owner_incarnation bigint, watermark bigint, "
        "lagging boolean",
        [
            poller(0, -5, lagging=True, owner=1),
            poller(1, -5, lagging=False, owner=1),
            poller(2, 3, lagging=False, owner=1),
            poller(3, -5, lagging=False, owner=2),
            poller(4, -5, lagging=False, owner=3),
            poller(5, -5, lagging=True, owner=None),
        ],
    )
    incarnations = [{"node_id": "node", "incarnation": 1, "floor": MINUTE + 1}, {"node_id": "node", "incarnation": 2}]
    nodes = frame(spark, "node_id string, incarnation bigint, floor bigint", incarnations)
    assert found(positions(pollers, nodes)) == {
        ("shop", 0, -300),
        ("shop", 1, 60),
        ("shop", 2, 180),
        ("shop", 3, -300),
        ("shop", 4, -300),
        ("shop", 5, -300),
    }


def test_minutes_before_the_position_are_settled(spark: SparkSession) -> None:
    keys = [{"client_id": "shop", "poller_id": poller, "minute": at(minute)} for poller in (0, 1) for minute in (0, 60)]
    partitions = frame(spark, "client_id string, poller_id int, minute timestamp", keys)
    known = [{"client_id": "shop", "poller_id": 0, "settled_before": at(60)}]
    pollers = frame(spark, "client_id string, poller_id int, settled_before timestamp", known)
    assert found(with_settled(partitions, pollers)) == {
        ("shop", 0, 0, True),
        ("shop", 0, 60, False),
        ("shop", 1, 0, False),
        ("shop", 1, 60, False),
    }
