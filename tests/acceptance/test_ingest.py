"""Records of a real Kafka become schedules of a real cluster, each once, whatever dies."""

import time
from collections import Counter
from collections.abc import Callable

import msgspec

from minutehand.local.kafka import RunningKafka
from tests.support.ingest import Feed, feeding
from tests.support.kafka import committed, produce, read_topic
from tests.support.processes import Deployment

PATIENCE_SECONDS = 60.0
CREATED = 'minutehand_ingest_records_total{result="created"}'


def eventually(seen: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until this is true."""
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, seen()
        time.sleep(0.1)


def handled(feed: Feed, **ends: int) -> bool:
    return committed(feed.kafka, feed.group, feed.topic) == {int(name[1:]): end for name, end in ends.items()}


def test_every_kind_of_record(cluster: Deployment, kafka: RunningKafka) -> None:
    with feeding(cluster, kafka) as feed:
        feed.start()
        event = [("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"/o"), ("ce_type", b"placed")]
        target = [
            ("ce_mhurl", cluster.receiver.url.encode()),
            ("ce_mhlabel", b"event"),
            ("content-type", b"text/plain"),
        ]
        produce(kafka, feed.topic, [(None, feed.record("soon", delay_seconds=1))])
        produce(kafka, feed.topic, [(None, b"data")], headers=[*event, *target])
        produce(
            kafka,
            feed.topic,
            [
                (None, feed.record("plain")),
                (b"k1", feed.record("first", op="put")),
                (b"k1", feed.record("second", op="put")),
                (b"k2", feed.record("gone", op="put")),
                (b"k2", None),
                (b"k3", feed.record("gone too", op="put")),
                (None, b'{"op": "cancel", "key": "k3"}'),
                (b"k4", None),
                (None, b"{"),
                (None, b'{"op": "cancel", "key": "never"}'),
                (None, feed.record("refused", timeout_seconds=-1)),
            ],
        )
        eventually(lambda: handled(feed, p0=13))
        assert cluster.receiver.await_count(2, seconds=30) == 2
        waiting = feed.labels(state="scheduled")
        assert waiting == {"plain": 1, "second": 1}, waiting
        letters = read_topic(kafka, feed.dead)
        told = [dict(letter.headers() or ()) for letter in letters]
        assert {int(one["minutehand-offset"]): one["minutehand-kind"] for one in told} == {
            10: b"unreadable", 11: b"not-found", 12: b"invalid"
        }  # fmt: skip
        faults = [msgspec.json.decode(one["minutehand-faults"]) for one in told if one["minutehand-offset"] == b"12"]
        assert [fault["pointer"] for fault in faults[0]] == ["/timeout_seconds"]
        assert {letter.value() for letter in letters} >= {b"{", feed.record("refused", timeout_seconds=-1)}
        assert feed.metric('minutehand_ingest_records_total{result="created"}') == 7
        assert feed.readiness() == []
        log = cluster.programs["ingest"].log_file
        cluster.stop_one("ingest")
        assert "ingest-left" in log.read_text()
        assert "Traceback" not in log.read_text()


def test_kills_in_the_middle_of_a_load_lose_and_double_nothing(cluster: Deployment, kafka: RunningKafka) -> None:
    count, kills = 12_000, 3
    with feeding(cluster, kafka, partitions=2) as feed:
        expected = Counter(str(number) for number in range(count))
        produce(kafka, feed.topic, [(str(n).encode(), feed.record(str(n))) for n in range(count)])
        for kill in range(kills):
            program = feed.start(batch_records=200)
            most = 200 * kill
            eventually(lambda most=most: feed.metric(CREATED) > most)
            program.kill()
        feed.start(batch_records=500)
        eventually(lambda: sum(committed(kafka, feed.group, feed.topic).values()) == count)
        assert feed.labels() == expected
        assert read_topic(kafka, feed.dead) == []


def test_a_partition_that_moves_is_handled_once(cluster: Deployment, kafka: RunningKafka) -> None:
    early, late = 8_000, 4_000
    with feeding(cluster, kafka, partitions=4) as feed:
        produce(kafka, feed.topic, [(str(n).encode(), feed.record(str(n))) for n in range(early)])
        feed.start("first", batch_records=20)
        eventually(lambda: feed.metric(CREATED, "first") > 20)
        feed.start("second", batch_records=20)
        eventually(lambda: feed.metric("minutehand_ingest_partitions", "second") == 2)
        produce(kafka, feed.topic, [(str(n).encode(), feed.record(str(n))) for n in range(early, early + late)])
        eventually(lambda: feed.metric(CREATED, "second") > 20)
        cluster.stop_one("first")
        eventually(lambda: sum(committed(kafka, feed.group, feed.topic).values()) == early + late)
        assert feed.labels() == Counter(str(number) for number in range(early + late))
        assert read_topic(kafka, feed.dead) == []


def test_while_the_api_is_away_kafka_keeps_what_waits(cluster: Deployment, kafka: RunningKafka) -> None:
    count = 3_000
    with feeding(cluster, kafka) as feed:
        feed.start(batch_records=100, hold_records=200)
        produce(kafka, feed.topic, [(None, feed.record(str(n))) for n in range(count // 3)])
        eventually(lambda: feed.metric(CREATED) > 100)
        cluster.programs["api"].kill()
        produce(kafka, feed.topic, [(None, feed.record(str(n))) for n in range(count // 3, count - 1)])
        # It came due while there was no API: it is called, not refused.
        produce(kafka, feed.topic, [(None, feed.record("overdue", due="2026-01-01T00:00:00Z"))])
        eventually(lambda: feed.readiness() == ["api-away"])
        assert feed.metric("minutehand_ingest_held_bytes") < 500_000
        cluster.start_api()
        eventually(lambda: handled(feed, p0=count))
        assert feed.readiness() == []
        assert feed.labels() == Counter(str(number) for number in range(count - 1))
        assert cluster.receiver.await_count(1, seconds=30) == 1
        assert read_topic(kafka, feed.dead) == []
        with cluster.admin() as admin:
            admin.clients.suspend("shop")
            produce(kafka, feed.topic, [(None, feed.record("suspended"))])
            eventually(lambda: feed.readiness() == ["api-denies"])
            admin.clients.resume("shop")
        eventually(lambda: feed.labels()["suspended"] == 1)
