"""The operator's clusters of Kafka, as the file of targets has them.

[kafka.clusters.main]
brokers = ["kafka-1.internal:9093", "kafka-2.internal:9093"]
clients = ["*"]
topic_prefixes = ["minutehand.{client}."]
tls = true
sasl_mechanism = "SCRAM-SHA-512"
username_file = "/run/secrets/kafka-username"
password_file = "/run/secrets/kafka-password"
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_type_hints

from scheduler_service.runtime.kafka_access import KafkaAccess

CLUSTER_PATTERN: Final = r"[a-z0-9][a-z0-9._-]{0,62}"
ANY_CLIENT: Final = "*"
CLIENT_PART: Final = "{client}"
_COMPRESSIONS: Final = ("none", "gzip", "lz4", "snappy", "zstd")
_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "message_timeout_seconds": (1, 300),
    "linger_ms": (0, 1000),
    "buffer_mb": (1, 2000),
    "record_bytes": (1000, 100_000_000),
}
_REQUIRED: Final = ("brokers", "clients", "topic_prefixes")
_LIST: Final = "a list of texts"
_WORDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(KafkaAccess):
    """One cluster. Raises ValueError for values that can't be, with all faults."""

    clients: tuple[str, ...]
    """Ids of the clients whose destinations may name the cluster; "*" for all."""
    topic_prefixes: tuple[str, ...]
    """What the names of their topics must begin with, one of these; {client} stands for the client's id, and "" admits
    all topics but internal ones. Behind {client} stands a character that no client's id with such topics may have, such
    as the dot of "minutehand.{client}.": else the topics of `shop.eu` would begin as those of `shop` do."""
    message_timeout_seconds: float = 10.0
    """Seconds from queueing a record until it is given up without an acknowledgement."""
    linger_ms: float = 5.0
    """Milliseconds for which a record waits for others to share its request. More: fewer requests, later records."""
    buffer_mb: int = 128
    """MiB of records without an acknowledgement that a process holds."""
    record_bytes: int = 1_000_000
    """The largest record, headers included; larger ones fail for good."""
    compression: str = "none"
    """How batches are compressed: none, gzip, lz4, snappy or zstd."""

    def __post_init__(self) -> None:
        faults = self.access_faults()
        if not self.brokers:
            faults.append("brokers: name at least one, as host:port")
        if not self.clients:
            faults.append('clients: name those that may use the cluster, or ["*"]')
        if not self.topic_prefixes:
            faults.append('topic_prefixes: name what topics begin with, or [""] for all')
        if any(prefix.endswith(CLIENT_PART) for prefix in self.topic_prefixes):
            faults.append("topic_prefixes: end {client} with a character, such as {client}. with a dot")
        for name, (least, most) in _BOUNDS.items():
            if not least <= getattr(self, name) <= most:
                faults.append(f"{name} must be from {least} to {most}")
        if self.compression not in _COMPRESSIONS:
            faults.append(f"compression: use one of {', '.join(_COMPRESSIONS)}")
        if faults:
            raise ValueError("; ".join(faults))

    def admits_client(self, client_id: str) -> bool:
        return ANY_CLIENT in self.clients or client_id in self.clients

    def prefixes_for(self, client_id: str) -> tuple[str, ...]:
        """Without those with which the topics of another client begin, too."""
        return tuple(
            prefix.replace(CLIENT_PART, client_id)
            for prefix in self.topic_prefixes
            if all(behind[:1] not in client_id for behind in prefix.split(CLIENT_PART)[1:])
        )

    def producer(self) -> dict[str, Any]:
        """The configuration of the library's producer. Raises ValueError for files that can't be read."""
        return {
            **self.read_access(),
            "client.id": "minutehand",
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",
            "message.timeout.ms": round(self.message_timeout_seconds * 1000),
            "request.timeout.ms": round(min(self.message_timeout_seconds, 30.0) * 1000),
            "topic.metadata.propagation.max.ms": round(self.message_timeout_seconds * 500),
            "linger.ms": self.linger_ms,
            "message.max.bytes": self.record_bytes,
            "queue.buffering.max.kbytes": self.buffer_mb * 1024,
            "queue.buffering.max.messages": 0,
            "compression.type": self.compression,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }


def read_clusters(settings: Mapping[str, Any]) -> dict[str, ClusterSettings]:
    """The clusters of the table `kafka`, by name. Raises ValueError with all faults."""
    faults = [f"{name} is not known: use clusters" for name in settings if name != "clusters"]
    tables = settings.get("clusters", {})
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError("; ".join([*faults, "name at least one cluster, as [kafka.clusters.NAME]"]))
    clusters = {}
    for name, table in tables.items():
        try:
            clusters[name] = _cluster(name, table)
        except ValueError as error:
            faults.append(f"clusters.{name}: {error}")
    if faults:
        raise ValueError("; ".join(faults))
    return clusters


def _cluster(name: str, table: object) -> ClusterSettings:
    if re.fullmatch(CLUSTER_PATTERN, name) is None:
        raise ValueError("name clusters by lower-case letters, digits, '.', '_' and '-'")
    if not isinstance(table, Mapping):
        raise ValueError("must be a table")
    hints = get_type_hints(ClusterSettings)
    known = [one.name for one in fields(ClusterSettings)]
    faults = [f"{key} is not known: use one of {', '.join(known)}" for key in table if key not in known]
    faults += [f"{key} is required" for key in _REQUIRED if key not in table]
    values = {}
    for key, value in table.items():
        if key in known:
            try:
                values[key] = _value(value, hints[key])
            except ValueError as error:
                faults.append(f"{key} must be {error}")
    if faults:
        raise ValueError("; ".join(faults))
    cluster = ClusterSettings(**values)
    cluster.read_access()
    return cluster


def _value(value: object, type_: Any) -> Any:
    """Raises ValueError that says what is expected."""
    if type_ == tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(_LIST)
        return tuple(value)
    plain = str if type_ == str | None else type_
    if plain is float and type(value) is int:
        return float(value)
    if type(value) is not plain:
        raise ValueError(_WORDS[plain])
    return value
