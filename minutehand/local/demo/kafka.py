"""Kafka in a demo: a broker, a topic whose records become schedules of the demo's client, what reads it, and a topic
that calls go to.

Its data is in the demo's directory, so records that were not read are read by the next demo.
"""

import json
import shlex
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from minutehand.ingest.settings import IngestSettings
from minutehand.local.demo.files import CLIENT_ID, DemoDirectory
from minutehand.local.kafka import RunningKafka, start_kafka
from minutehand.local.machine import free_ports
from minutehand.local.progress import Progress
from minutehand.processes.programs import Program
from minutehand.reference_pages import toml

if TYPE_CHECKING:
    from minutehand.ingest.reading import SeenRecord

TOPIC = "demo"
DEAD_LETTERS = "demo-dead-letters"
CLUSTER = "demo"
"""How destinations name the broker."""
CALLS = f"{CLIENT_ID}.calls"
"""The topic of the demo's calls."""
DESTINATION = "orders"
TARGET = {"cluster": CLUSTER, "topic": CALLS}
FOLDER = "kafka"
PARTITIONS = 2
_SECONDS = 60.0
_LOOKED_AT = 100
"""Records at the end of the topic of calls in which one's own is sought."""
_LOOK_SECONDS = 0.5


class DemoKafka:
    """A running broker with its topics. Blocks; call it from a thread in async code."""

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

        send_lines(self._client, TOPIC, [json.dumps(record).encode()])

    @property
    def targets(self) -> str:
        """What the file of targets has of the broker: each client's calls may go to topics that begin with its id."""
        return "\n".join(
            [
                f"[kafka.clusters.{CLUSTER}]",
                f"brokers = {toml((self.broker.bootstrap_servers,))}",
                'clients = ["*"]',
                'topic_prefixes = ["{client}."]',
                "",
            ]
        )

    def await_call(self, schedule_id: str, *, seconds: float) -> "SeenRecord | None":
        """The record of this schedule's call; None if it does not come in time. Raises LocalError. Blocks."""
        from minutehand.ingest.reading import read_last

        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for one in read_last(self._client, CALLS, _LOOKED_AT):
                if ("webhook-id", schedule_id) in one.headers:
                    return one
            time.sleep(_LOOK_SECONDS)
        return None

    @property
    def _client(self) -> IngestSettings:
        return IngestSettings(brokers=(self.broker.bootstrap_servers,))

    def shown_call(self, command: str) -> list[str]:
        """Lines for a shell that has the demo's variables: a destination that is a topic, a schedule of it, and what
        the topic holds last."""
        put = f'curl -X PUT $API/v1/clients/$CLIENT/destinations/{DESTINATION} -H "Authorization: Bearer $KEY"'
        destination = json.dumps({"kind": "kafka", "target": TARGET})
        return [
            f"{put} -H 'Content-Type: application/json' -d '{destination}'",
            f"{command} schedules create $CLIENT --destination {DESTINATION} "
            "--body-json '{\"order\": 19}' --delay-seconds 5",
            f"{command} ingest read --brokers {self.broker.bootstrap_servers} --topic {CALLS} --limit 1",
        ]

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
    asked = [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(DEAD_LETTERS, 1, 1), NewTopic(CALLS, PARTITIONS, 1)]
    admin = AdminClient(told)  # its answers end with it
    for made in admin.create_topics(asked, operation_timeout=_SECONDS).values():
        try:
            made.result(_SECONDS)
        except KafkaException as error:
            # An earlier demo has made it.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
