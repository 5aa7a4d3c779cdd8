"""The embedded Kafka is a real one: it keeps records over kills and restarts, and makes no topic by itself."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from minutehand.errors import LocalError
from minutehand.local.kafka import EmbeddedKafka, RunningKafka
from minutehand.local.machine import free_ports
from tests.support.kafka import (
    PATIENCE_SECONDS,
    client_settings,
    committed,
    embedded_kafka,
    make_topic,
    produce,
    read_topic,
    reader,
)


def test_records_come_back_as_they_were_sent(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, partitions=2)
    produce(kafka, topic, [(b"a", b"1"), (None, b"2"), (b"c", None)], headers=[("h", b"\x00v")])
    found = read_topic(kafka, topic)
    assert {(message.key(), message.value()) for message in found} == {(b"a", b"1"), (None, b"2"), (b"c", None)}
    assert all(message.headers() == [("h", b"\x00v")] for message in found)


def test_a_group_has_offsets(kafka: RunningKafka) -> None:
    topic = make_topic(kafka)
    produce(kafka, topic, [(None, b"1"), (None, b"2")])
    with reader(kafka, f"{topic}-group") as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert committed(kafka, f"{topic}-group", topic) == {0: 1}


def test_no_topic_is_made_by_its_use(kafka: RunningKafka) -> None:
    with pytest.raises(KafkaException, match="Unknown topic"):
        produce(kafka, "nobody-made-this", [(None, b"1")])


def test_a_topic_is_made_by_its_use_where_that_is_wanted() -> None:
    with embedded_kafka(create_topics=True) as lenient:
        produce(lenient, "nobody-made-this", [(None, b"1")])
        assert [message.value() for message in read_topic(lenient, "nobody-made-this")] == [b"1"]


def test_what_was_acknowledged_survives_a_kill_and_a_stop(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    recipe = EmbeddedKafka(data_dir=tmp_path, port=port, controller_port=controller_port)
    with recipe.start() as first:
        assert first.answers()
        with pytest.raises(LocalError, match="Another Kafka runs on"):
            recipe.start()
        topic = make_topic(first)
        produce(first, topic, [(None, b"before the kill")])
        first.kill()
        assert not first.is_running()
    with recipe.start() as second:
        produce(second, topic, [(None, b"before the stop")])
    with recipe.start() as third:
        assert [message.value() for message in read_topic(third, topic)] == [b"before the kill", b"before the stop"]
        third.pause()
        assert not third.answers(timeout_seconds=0.2)
        third.resume()
        assert third.answers(timeout_seconds=PATIENCE_SECONDS)
        third.kill()


def test_settings_of_a_client_name_the_broker(kafka: RunningKafka) -> None:
    assert client_settings(kafka)["bootstrap.servers"] == f"127.0.0.1:{kafka.port}"
