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
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from scheduler_service.runtime.kafka_access import MECHANISMS, kafka_access

CLUSTER_PATTERN: Final = r"[a-z0-9][a-z0-9._-]{0,62}"
ANY_CLIENT: Final = "*"
CLIENT_PART: Final = "{client}"
_BROKER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}")
_COMPRESSIONS: Final = ("none", "gzip", "lz4", "snappy", "zstd")
_LIST: Final = "a list of texts"
_WORDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster. Raises ValueError for values that can't be."""

    brokers: tuple[str, ...]
    """Some brokers of the cluster, as host:port; the others are found through them."""
    clients: tuple[str, ...]
    """Ids of the clients whose destinations may name the cluster; "*" for all."""
    topic_prefixes: tuple[str, ...]
    """What the names of their topics must begin with, one of these; {client} stands for the client's id, and "" admits
    all topics but internal ones. Behind {client} stands a character that no client's id with such topics may have, such
    as the dot of "minutehand.{client}.": else the topics of `shop.eu` would begin as those of `shop` do."""
    tls: bool = False
    """Whether connections are encrypted, and brokers' certificates verified."""
    ca_file: str | None = None
    """PEM file of the authorities that brokers' certificates are verified against. None: the system's."""
    certificate_file: str | None = None
    """PEM file of the client certificate, with `key_file`; for clusters that ask for one."""
    key_file: str | None = None
    """PEM file of its private key, not encrypted."""
    sasl_mechanism: str | None = None
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, with `username_file` and `password_file`. None: no log-in."""
    username_file: str | None = None
    """File that holds the user's name."""
    password_file: str | None = None
    """File that holds the password."""
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
    login: tuple[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.brokers or any(_BROKER.fullmatch(broker) is None for broker in self.brokers):
            raise ValueError("brokers: name at least one, as host:port")
        if not self.clients:
            raise ValueError('clients: name those that may use the cluster, or ["*"]')
        if not self.topic_prefixes:
            raise ValueError('topic_prefixes: name what topics begin with, or [""] for all')
        if any(prefix.endswith(CLIENT_PART) for prefix in self.topic_prefixes):
            raise ValueError("topic_prefixes: end {client} with a character, such as {client}. with a dot")
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("give certificate_file and key_file, or neither")
        if not self.tls and (self.ca_file is not None or self.certificate_file is not None):
            raise ValueError("ca_file and certificate_file are for tls = true")
        if self.sasl_mechanism is not None and self.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl_mechanism: use one of {', '.join(MECHANISMS)}")
        if (self.sasl_mechanism is None) != (self.login is None):
            raise ValueError("give sasl_mechanism, username_file and password_file, or none of them")
        if not 1 <= self.message_timeout_seconds <= 300:
            raise ValueError("message_timeout_seconds must be from 1 to 300")
        if not 0 <= self.linger_ms <= 1000:
            raise ValueError("linger_ms must be from 0 to 1000")
        if not 1 <= self.buffer_mb <= 2000:
            raise ValueError("buffer_mb must be from 1 to 2000")
        if not 1000 <= self.record_bytes <= 100_000_000:
            raise ValueError("record_bytes must be from 1000 to 100000000")
        if self.compression not in _COMPRESSIONS:
            raise ValueError(f"compression: use one of {', '.join(_COMPRESSIONS)}")

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
        """The configuration of the library's producer."""
        username, password = self.login or (None, None)
        access = kafka_access(
            ",".join(self.brokers),
            tls=self.tls,
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
            sasl_mechanism=self.sasl_mechanism,
            username=username,
            password=password,
        )
        return {
            **access,
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
    known = {one.name: one for one in fields(ClusterSettings) if one.name != "login"}
    faults = [f"{key} is not known: use one of {', '.join(known)}" for key in table if key not in known]
    faults += [f"{key} is required" for key, one in known.items() if one.default is MISSING and key not in table]
    values = {}
    for key, value in table.items():
        if key in known:
            try:
                values[key] = _value(value, hints[key])
            except ValueError as error:
                faults.append(f"{key} must be {error}")
    if faults:
        raise ValueError("; ".join(faults))
    for key in ("ca_file", "certificate_file", "key_file"):
        if values.get(key) is not None:
            _read(key, values[key])
    secrets = [values.get(key) for key in ("username_file", "password_file")]
    login = None
    if None not in secrets:
        login = (_secret("username_file", str(secrets[0])), _secret("password_file", str(secrets[1])))
    return ClusterSettings(**values, login=login)


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


def _secret(key: str, path: str) -> str:
    text = _read(key, path).strip()
    if not text:
        raise ValueError(f"{key} names {path}, which is empty")
    return text


def _read(key: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"{key} names {path}, which can't be read ({why})") from None
