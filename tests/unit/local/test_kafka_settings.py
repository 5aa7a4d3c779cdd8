"""The configuration that an embedded Kafka gets, and how it is recognised."""

import socket
import struct
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minutehand.local.kafka import EmbeddedKafka
from minutehand.local.kafka_handshake import answers_kafka
from minutehand.local.kafka_settings import (
    KafkaSettings,
    format_command,
    java_command,
    server_properties,
    write_configuration,
)
from minutehand.local.lock_file import read_lock
from minutehand.local.machine import free_ports

ONE_BROKER = struct.pack(">iiii", 100, 17, 0, 1)
NO_BROKER = struct.pack(">iiii", 100, 17, 0, 0)


def settings(directory: Path, **changes: object) -> KafkaSettings:
    values: dict[str, object] = {
        "data_dir": directory,
        "host": "127.0.0.2",
        "port": 19092,
        "controller_port": 19093,
        "heap_mb": 128,
    }
    return KafkaSettings(**{**values, **changes})  # type: ignore[arg-type]


def test_the_broker_listens_on_its_own_address_and_ports_only(tmp_path: Path) -> None:
    told = server_properties(settings(tmp_path))
    assert told["listeners"] == "PLAINTEXT://127.0.0.2:19092,CONTROLLER://127.0.0.2:19093"
    assert told["controller.quorum.voters"] == "1@127.0.0.2:19093"


def test_topics_are_made_by_use_only_where_that_is_said(tmp_path: Path) -> None:
    assert server_properties(settings(tmp_path))["auto.create.topics.enable"] == "false"
    assert server_properties(settings(tmp_path, create_topics=True))["auto.create.topics.enable"] == "true"


def test_what_clients_see_is_left_to_the_broker(tmp_path: Path) -> None:
    told = " ".join(name for name in server_properties(settings(tmp_path)) if not name.startswith("broker."))
    for decided_by_broker in ("message.max", "timeout", "session", "retention", "compression", "flush"):
        assert decided_by_broker not in told


def test_callers_may_override(tmp_path: Path) -> None:
    told = server_properties(settings(tmp_path, properties={"message.max.bytes": "1000", "num.io.threads": "1"}))
    assert (told["message.max.bytes"], told["num.io.threads"]) == ("1000", "1")


def test_the_files_are_written_below_the_data_directory(tmp_path: Path) -> None:
    made = settings(tmp_path / "data & more", properties={"some.path": "a\\b"})
    write_configuration(made)
    lines = (made.config_dir / "server.properties").read_text().splitlines()
    assert f"log.dirs={made.records_dir}" in lines
    assert "some.path=a\\\\b" in lines
    rolling = ElementTree.fromstring((made.config_dir / "log4j2.xml").read_text()).find("Appenders/RollingFile")
    assert rolling is not None
    assert rolling.get("fileName") == str(made.log_file)


def test_the_command_lines_name_everything(tmp_path: Path) -> None:
    made = settings(tmp_path, java_options=("-Dlast=1",))
    command = java_command(Path("/jre/bin/java"), [Path("/a.jar"), Path("/b.jar")], made)
    assert command[0] == "/jre/bin/java"
    assert command[-3:] == ["/a.jar:/b.jar", "kafka.Kafka", str(tmp_path / "conf/server.properties")]
    assert {"-Xmx128m", "-Dlast=1", f"-Djava.io.tmpdir={tmp_path / 'tmp'}"} <= set(command)
    assert "format" in format_command(Path("/jre/bin/java"), [], made)


def test_the_committed_lock_pins_kafka_and_its_logger() -> None:
    broker, logger = read_lock("kafka"), read_lock("kafka-logging")
    assert any(jar.artifact == "kafka_2.13" and jar.version == broker.version for jar in broker.jars)
    assert {"log4j-api", "log4j-core", "slf4j-api"} <= {jar.artifact for jar in broker.jars}
    [log4j] = {jar.version for jar in broker.jars if jar.artifact == "log4j-core"}
    assert [(jar.artifact, jar.version) for jar in logger.jars] == [("log4j-slf4j-impl", log4j)]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("ERROR [main] 2026-01-01T00:00:00,000 Kafka - Address already in use", "PortBusy"),
        ("Socket server failed to bind to 127.0.0.1:19093", "PortBusy"),
        ("java.io.IOException: No space left on device", "DiskFull"),
        ("ERROR [main] 2026-01-01T00:00:00,000 Kafka - The cluster id differs", "StartFailed"),
    ],
)
def test_a_broker_that_ended_is_explained(tmp_path: Path, said: str, name: str) -> None:
    made = settings(tmp_path)
    write_configuration(made)
    made.log_file.write_text(said + "\n")
    error = EmbeddedKafka(data_dir=tmp_path, port=19092, controller_port=19093)._explain(made, 1)
    assert type(error).__name__ == name
    assert "Kafka did not start: The cluster id differs" in str(error) or name != "StartFailed"


@contextmanager
def server(answer: bytes | None) -> Iterator[int]:
    """Answers one connection (None: never)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                if answer is None:
                    connection.recv(100)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_broker_that_serves_is_recognised() -> None:
    with server(ONE_BROKER) as port:
        assert answers_kafka("127.0.0.1", port)


@pytest.mark.parametrize("answer", [b"", ONE_BROKER[:8], NO_BROKER, b"HTTP/1.1 400 Bad Request\r\n", None], ids=str)
def test_everything_else_is_none(answer: bytes | None) -> None:
    with server(answer) as port:
        assert not answers_kafka("127.0.0.1", port, timeout_seconds=0.05)


def test_a_closed_port_is_none() -> None:
    assert not answers_kafka("127.0.0.1", free_ports(1)[0])
