"""Records that can never succeed, in a topic of a real Kafka."""

import asyncio

import msgspec
import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from minutehand.client._models import Fault
from minutehand.errors import LocalError
from minutehand.ingest.api import Later
from minutehand.ingest.counts import IngestCounts
from minutehand.ingest.dead_letters import MAX_LETTER_FAULTS, DeadLetters
from minutehand.ingest.records import Record
from minutehand.ingest.sending import send_lines
from minutehand.ingest.settings import IngestSettings
from minutehand.local.kafka import RunningKafka
from minutehand.wiring_ingest import await_topics, missing_topics, producer_settings
from tests.support.api import NOW, ManualClock
from tests.support.kafka import PATIENCE_SECONDS, make_topic, read_topic

FAULTS = [Fault(pointer="/due", detail="is missing"), Fault(pointer="", detail="ü")]


def settings(kafka: RunningKafka, **given: object) -> IngestSettings:
    return IngestSettings(brokers=(kafka.bootstrap_servers,), **given)  # type: ignore[arg-type]


async def test_a_letter_is_the_record_with_its_faults(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, "dead", max_message_bytes="2000")
    letters = DeadLetters(Producer(producer_settings(settings(kafka))), topic)
    await letters.send(Record("t", 3, 7, None, b"k\x00", b"v\xff", (("h", b"1"), ("h", None))), "invalid", FAULTS)
    await letters.send(Record("t", 3, 8, None, None, b"x" * 5000), "unreadable", FAULTS)
    await letters.close()
    first, second = read_topic(kafka, topic)
    assert (first.key(), first.value()) == (b"k\x00", b"v\xff")
    assert first.headers() == [
        ("h", b"1"),
        ("h", None),
        ("minutehand-kind", b"invalid"),
        ("minutehand-faults", msgspec.json.encode([{"pointer": one.pointer, "detail": one.detail} for one in FAULTS])),
        ("minutehand-topic", b"t"),
        ("minutehand-partition", b"3"),
        ("minutehand-offset", b"7"),
    ]
    assert second.value() is None, "the topic does not take so many bytes"
    assert ("minutehand-left-out", b"5000") in (second.headers() or [])


async def test_without_its_topic_no_letter_is_lost(kafka: RunningKafka) -> None:
    letters = DeadLetters(Producer(producer_settings(settings(kafka))), "nobody-made-this")
    with pytest.raises(Later, match="UNKNOWN_TOPIC"):
        await letters.send(Record("t", 0, 0, None, None, b"v"), "invalid", FAULTS)
    await letters.close()


async def test_topics_that_are_missing_are_waited_for_and_named_once_a_minute(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, clock, counts = make_topic(kafka), ManualClock(), IngestCounts()
    later = f"{topic}-later"
    asked = settings(kafka, topics=(topic, later), dead_letter_topic="nobody-made-this")
    with capture_logs() as lines:
        waiting = asyncio.create_task(await_topics(asked, clock=clock, counts=counts))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while clock.now < NOW + 66_000 and not waiting.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        waiting.cancel()
    said = [line for line in lines if line["event"] == "ingest-topics-missing"]
    assert [line["topics"] for line in said] == [[later, "nobody-made-this"]] * len(said)
    assert len(said) == 2, "5 s from look to look, 60 s from line to line"
    assert "Create them" in said[0]["hint"]
    assert counts.missing_topics == (later, "nobody-made-this")
    there = settings(kafka, topics=(topic,), dead_letter_topic=make_topic(kafka))
    assert await await_topics(there, clock=clock, counts=counts)
    assert counts.missing_topics == ()
    monkeypatch.setattr("minutehand.wiring_ingest._FIRST_SECONDS", 1.0)
    with pytest.raises(LocalError, match=r"can't be asked at 127\.0\.0\.1:9"):
        missing_topics(IngestSettings(brokers=("127.0.0.1:9",)))


def test_lines_are_records(kafka: RunningKafka) -> None:
    topic = make_topic(kafka)
    assert send_lines(settings(kafka), topic, [b'{"a":1}', b"  ", b"2"], key=b"k") == 2
    assert [(one.key(), one.value()) for one in read_topic(kafka, topic)] == [(b"k", b'{"a":1}'), (b"k", b"2")]
    with pytest.raises(LocalError, match="1 of 1 records were not written"):
        send_lines(settings(kafka), "nobody-made-this", [b"1"])


async def test_a_letter_is_taken_whatever_the_record_is(kafka: RunningKafka) -> None:
    """One that no topic takes would stop its partition for ever."""
    topic = make_topic(kafka, "dead")
    letters = DeadLetters(Producer(producer_settings(settings(kafka))), topic)
    many = [Fault(pointer=f"/{at}", detail="is no field of a cancel") for at in range(60_000)]
    await letters.send(Record("t", 0, 1, None, None, b"v"), "unreadable", many)
    await letters.send(Record("t", 0, 2, None, b"k" * 1_048_400, None, (("h", b"1"),)), "unreadable", FAULTS)
    await letters.close()
    first, second = read_topic(kafka, topic)
    assert len(msgspec.json.decode(dict(first.headers() or [])["minutehand-faults"])) == MAX_LETTER_FAULTS
    assert first.value() == b"v"
    told = dict(second.headers() or [])
    assert (second.key(), second.value(), told["minutehand-left-out"]) == (None, None, b"1048402")
    assert told["minutehand-offset"] == b"2"
