"""The kind `kafka`: judges targets, {"cluster": ..., "topic": ..., "key": ...}, by the operator's clusters."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from poller_cluster.delivery.targets.kafka.settings import ClusterSettings, read_clusters
from scheduler_service.domain.callback_rules import is_token
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.targets import JudgedTarget
from scheduler_service.runtime.clock import Clock

if TYPE_CHECKING:
    from poller_cluster.delivery.targets.kafka.producer import KafkaTarget

FIELDS: Final = ("cluster", "topic", "key", "key_header", "acks")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_INTERNAL: Final = "__"
_LONGEST_KEY: Final = 1024


class Records(NamedTuple):
    """Where records go. `key`: of each; None: what the call's `key_header` says, else the schedule's ordering key, else
    its id. `key_header`: in lower case."""

    cluster: str
    topic: str
    key: bytes | None
    key_header: str | None = None


class KafkaKind:
    """A `TargetKind`. Raises ValueError for settings that can't be, and if the library is not installed."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._clusters = read_clusters(settings)
        try:
            import confluent_kafka  # noqa: F401
        except ImportError as error:
            raise ValueError(f"needs confluent-kafka ({error}): install minutehand-server[kafka]") from None

    def judge(self, document: Mapping[str, Any], *, client_id: ClientId) -> JudgedTarget:
        faults = [
            FieldError(f"/{_escaped(name)}", f"is not known: use {', '.join(FIELDS)}")
            for name in document
            if name not in FIELDS
        ]
        faults += [
            FieldError(f"/{name}", "is required, as a text")
            for name in ("cluster", "topic")
            if not isinstance(document.get(name), str)
        ]
        key = document.get("key")
        if key is not None and not (isinstance(key, str) and 0 < len(key.encode(errors="replace")) <= _LONGEST_KEY):
            faults.append(FieldError("/key", f"must be a text of 1 to {_LONGEST_KEY} bytes"))
        key_header = document.get("key_header")
        if key_header is not None and not (isinstance(key_header, str) and is_token(key_header)):
            faults.append(FieldError("/key_header", "must be the name of a header"))
        elif key is not None and key_header is not None:
            faults.append(FieldError("/key_header", "is only for targets without a key"))
        if document.get("acks", "all") != "all":
            faults.append(FieldError("/acks", "must be all: a call is delivered when all in-sync replicas have it"))
        faults += self._faults_of_names(document.get("cluster"), document.get("topic"), client_id)
        if faults:
            raise Invalid(faults)
        cluster, topic = document["cluster"], document["topic"]
        named = None if key_header is None else key_header.lower()
        means = Records(cluster, topic, None if key is None else key.encode(), named)
        return JudgedTarget(f"kafka://{cluster}/{topic}", means)

    def _faults_of_names(self, name: object, topic: object, client_id: ClientId) -> list[FieldError]:
        """Of those that are texts."""
        faults = []
        cluster = self._clusters.get(name) if isinstance(name, str) else None
        if cluster is not None and not cluster.admits_client(client_id):
            # The same sentence for both: which clusters others may use is not for this client to know.
            cluster = None
        if cluster is None and isinstance(name, str):
            faults.append(FieldError("/cluster", "is no cluster that this client may use"))
        if isinstance(topic, str) and (wrong := _fault_of_topic(topic, cluster, client_id)) is not None:
            faults.append(FieldError("/topic", wrong))
        return faults

    def open(self, *, clock: Clock, capacity: int) -> "KafkaTarget":
        from poller_cluster.delivery.targets.kafka.producer import KafkaTarget

        return KafkaTarget(self._clusters, clock=clock)


def _fault_of_topic(topic: str, cluster: ClusterSettings | None, client_id: ClientId) -> str | None:
    """`cluster` None: it is not known which prefixes hold."""
    if _TOPIC.fullmatch(topic) is None or topic in (".", ".."):
        return "must have 1 to 249 letters, digits, '.', '_' or '-'"
    if topic.startswith(_INTERNAL):
        return "is internal to Kafka"
    if cluster is None:
        return None
    prefixes = cluster.prefixes_for(client_id)
    if not prefixes:
        return "must be one that the operator admits: none is admitted for this client's id"
    if not topic.startswith(prefixes):
        return f"must begin with {' or '.join(map(repr, prefixes))} for this client"
    return None


def _escaped(name: str) -> str:
    return name[:128].replace("~", "~0").replace("/", "~1")
