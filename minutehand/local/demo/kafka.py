"""Kafka in a demo: a broker, a topic whose records become schedules of the demo's client, and what reads it.

Its data is in the demo's directory, so records that were not read are read by the next demo.
"""

import json
import shlex
from contextlib import ExitStack
from typing import Any

from minutehand.local.demo.files import DemoDirectory
from minutehand.local.kafka import RunningKafka, start_kafka
from minutehand.local.machine import free_ports
from minutehand.local.progress import Progress
from minutehand.processes.programs import Program

TOPIC = "demo"
DEAD_LETTERS = "demo-dead-letters"
FOLDER = "kafka"
PARTITIONS = 2
_SECONDS = 60.0


class DemoKafka:
    """A running broker with both topics. Blocks; call it from a thread in async code."""

    def __init__(self, directory: DemoDirectory, broker: RunningKafka) -> None:
        self.broker = broker
        self._directory = directory
        self._ingest: Program | None = None

    @classmethod
    def start(cls, directory: DemoDirectory, running: ExitStack, *, progress: Progress) -> "DemoKafka":
        """Start the broker, which `running` stops, and make the topics. Raises LocalError."""
        broker = start_kafka(directory.path / FOLDER, progress=progress)
        running.callback(broker.stop)
        _make_topics(broker.bootstrap_servers)
        return cls(directory, broker)

    def start_ingest(self, running: ExitStack, *, api_url: str, client_id: str, key: str) -> None:
        """Start the process that reads the topic, and return when it runs."""
        (port,) = free_ports(1)
        variables = {
            "BROKERS": self.broker.bootstrap_servers,
            "TOPICS": TOPIC,
            "DEAD_LETTER_TOPIC": DEAD_LETTERS,
            "URL": api_url,
            "CLIENT": client_id,
            "KEY": key,
            "PORT": str(port),
        }
        program = self._ingest = Program(
            "ingest of Kafka",
            ["ingest", "kafka", "--config", str(self._directory.settings)],
            log_file=self._directory.log_file("ingest"),
            variables={f"MINUTEHAND_INGEST_{name}": value for name, value in variables.items()},
        )
        running.callback(program.stop)
        program.await_ready(f"http://127.0.0.1:{port}/livez")

    def ingest_runs(self) -> bool:
        return self._ingest is not None and self._ingest.exit_code() is None

    def send(self, record: dict[str, Any]) -> None:
        """Write a record, durably. Raises LocalError."""
        from minutehand.ingest.sending import send_lines
        from minutehand.ingest.settings import IngestSettings

        send_lines(IngestSettings(brokers=self.broker.bootstrap_servers), TOPIC, [json.dumps(record).encode()])

    def shown_command(self, command: str, record: dict[str, Any]) -> str:
        """A line for a shell that writes this record."""
        return (
            f"echo {shlex.quote(json.dumps(record))} | "
            f"{command} ingest send --brokers {self.broker.bootstrap_servers} --topic {TOPIC}"
        )


def _make_topics(brokers: str) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    told: dict[str, Any] = {"bootstrap.servers": brokers, "log_level": 0}
    asked = [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(DEAD_LETTERS, 1, 1)]
    admin = AdminClient(told)  # its answers end with it
    for made in admin.create_topics(asked, operation_timeout=_SECONDS).values():
        try:
            made.result(_SECONDS)
        except KafkaException as error:
            # An earlier demo has made it.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
