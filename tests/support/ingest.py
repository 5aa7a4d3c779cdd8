"""Ingest processes for tests, and what they have made."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec

from minutehand.local.kafka import RunningKafka
from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from tests.support.kafka import make_topic
from tests.support.processes import Deployment

CLIENT = "shop"
AHEAD = timedelta(hours=30)
"""How far ahead the calls of most tests are due, which no node makes."""


@dataclass
class Feed:
    """A topic that is read for a client, and its dead letters."""

    cluster: Deployment
    kafka: RunningKafka
    topic: str
    dead: str
    key: str
    due: datetime = field(default_factory=lambda: (datetime.now(UTC) + AHEAD).replace(microsecond=0))

    @property
    def group(self) -> str:
        return f"{self.topic}-group"

    def start(self, name: str = "ingest", **settings: Any) -> Program:
        """Start a process and wait until it runs; it needs no API for that."""
        (port,) = free_ports(1)
        given = {
            "brokers": self.kafka.bootstrap_servers,
            "topics": self.topic,
            "dead_letter_topic": self.dead,
            "group": self.group,
            "client": CLIENT,
            "key": self.key,
            "url": self.cluster.api_url,
            "port": port,
            # The least that a broker takes: so long a killed member keeps its partitions.
            "session_seconds": 6,
            **settings,
        }
        variables = {f"MINUTEHAND_INGEST_{name.upper()}": str(value) for name, value in given.items()}
        program = self.cluster.start(name, ["ingest", "kafka"], variables=variables)
        program.await_ready(f"http://127.0.0.1:{port}/livez")
        self.ports[name] = port
        return program

    ports: dict[str, int] = field(default_factory=dict)

    def metric(self, sample: str, name: str = "ingest") -> float:
        """A sample of a process's metrics."""
        page = httpx.get(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=30, trust_env=False).text
        return float(next(line for line in page.splitlines() if line.startswith(sample + " ")).rpartition(" ")[2])

    def readiness(self, name: str = "ingest") -> list[str]:
        """Why a process is not ready."""
        answer = httpx.get(f"http://127.0.0.1:{self.ports[name]}/readyz", timeout=30, trust_env=False)
        return [one["reason"] for one in answer.json()["reasons"]]

    def record(self, label: str, **more: Any) -> bytes:
        """The value of a record that creates a schedule of this label."""
        callback = {"url": self.cluster.receiver.url, "json": {"label": label}}
        due = {} if "delay_seconds" in more else {"due": self.due.isoformat()}
        return msgspec.json.encode({"callback": callback, "label": label, **due, **more})

    def labels(self, *, start: datetime | None = None, end: datetime | None = None, **filters: Any) -> Counter[str]:
        """How many schedules the client has of each label, in any state."""
        with self.cluster.client(CLIENT, self.key) as client:
            listed = client.schedules.list(
                start=start or self.due - timedelta(minutes=1), end=end or self.due + timedelta(minutes=2), **filters
            )
            return Counter(str(one.label) for one in listed)


@contextmanager
def feeding(cluster: Deployment, kafka: RunningKafka, *, partitions: int = 1) -> Iterator[Feed]:
    """An API, a node, the client, and topics of its own."""
    cluster.start_api()
    cluster.start_node("n1")
    key = cluster.register(CLIENT, poller_quota=2)
    yield Feed(cluster, kafka, make_topic(kafka, "orders", partitions=partitions), make_topic(kafka, "dead"), key)
