"""What a topic holds last, from a real broker."""

import json

import pytest
from typer.testing import CliRunner

from minutehand.cli.app import app
from minutehand.errors import LocalError
from minutehand.ingest.reading import read_last
from minutehand.ingest.settings import IngestSettings
from minutehand.local.kafka import RunningKafka
from tests.support.kafka import make_topic, produce


def test_the_last_records_of_all_partitions(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, partitions=3)
    settings = IngestSettings(brokers=(kafka.bootstrap_servers,))
    assert read_last(settings, topic, 5) == []
    for number in range(6):
        key = None if number == 5 else b"k\xff"
        value = None if number == 4 else str(number).encode()
        produce(kafka, topic, [(key, value)], headers=[("h", b"\xc3\xa4")], partition=number % 2)
    found = read_last(settings, topic, 4)
    assert [(one.partition, one.offset, one.value) for one in found] == [
        (0, 1, "2"),
        (1, 1, "3"),
        (0, 2, None),
        (1, 2, "5"),
    ]
    assert [one.key for one in found] == ["k\\xff"] * 3 + [None]
    assert found[0].headers == [("h", "ä")]
    with pytest.raises(LocalError, match="topic-nowhere can't be read"):
        read_last(settings, "topic-nowhere", 1)


def test_the_command_shows_them(kafka: RunningKafka) -> None:
    topic = make_topic(kafka)
    command = ["ingest", "read", "--brokers", kafka.bootstrap_servers, "--topic", topic]
    assert CliRunner().invoke(app, command).output == f"{topic} holds no records.\n"
    produce(kafka, topic, [(b"k", b"one"), (b"k", b"two")], headers=[("h", b"1")])
    shown = CliRunner().invoke(app, [*command, "--limit", "1"]).output
    assert [line.split() for line in shown.splitlines() if not line.startswith("timestamp")] == [
        ["partition", "0"],
        ["offset", "1"],
        ["key", "k"],
        ["headers", "h:", "1"],
        ["value", "two"],
    ]
    values = [one["value"] for one in json.loads(CliRunner().invoke(app, [*command, "--json"]).output)]
    assert values == ["one", "two"]
