"""What an error of the Kafka library means for a call. Pure: errors by the library's names for them."""

from typing import Final

from poller_cluster.delivery.targets.ends import DONE, End, TargetEnd

PURGED_QUEUED: Final = "_PURGE_QUEUE"
"""The record was purged before it was sent."""
PURGED_SENT: Final = "_PURGE_INFLIGHT"
_REFUSED: Final[dict[str, str]] = {
    "INVALID_RECORD": "the broker refuses the record",
    "POLICY_VIOLATION": "a policy of the cluster forbids the record",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "the topic's format of records has no headers",
}
_NOT_WRITTEN: Final[dict[str, str]] = {
    "CLUSTER_AUTHORIZATION_FAILED": "the cluster does not let this producer write",
    "KAFKA_STORAGE_ERROR": "the broker can't write to its disk",
    "LEADER_NOT_AVAILABLE": "the partition has no leader",
    "MSG_SIZE_TOO_LARGE": "the batch of the record is larger than the topic admits",
    "NOT_ENOUGH_REPLICAS": "the partition has too few in-sync replicas",
    "NOT_LEADER_FOR_PARTITION": "the broker is not the partition's leader",
    "RECORD_LIST_TOO_LARGE": "the batch of the record is larger than the topic admits",
    "SASL_AUTHENTICATION_FAILED": "the cluster does not accept the credentials",
    "THROTTLING_QUOTA_EXCEEDED": "the cluster's quota is used up",
    "TOPIC_AUTHORIZATION_FAILED": "the cluster does not let this producer write to the topic",
    "TOPIC_EXCEPTION": "the cluster does not admit the topic's name",
    "UNKNOWN_TOPIC_OR_PART": "the cluster has no such topic",
    "_ALL_BROKERS_DOWN": "no broker can be reached",
    "_AUTHENTICATION": "the cluster does not accept the credentials",
    "_QUEUE_FULL": "the buffer for this cluster is full",
    "_SSL": "TLS with the cluster failed",
    "_UNKNOWN_PARTITION": "the topic has no such partition",
    "_UNKNOWN_TOPIC": "the cluster has no such topic",
}
_PERHAPS_WRITTEN: Final[dict[str, str]] = {
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "too few replicas have the record",
    "_TRANSPORT": "the connection to the broker broke",
}
_TIMED_OUT: Final = frozenset({"REQUEST_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE"})


def end_of(error: str | None, *, last_error: str | None = None) -> TargetEnd:
    """The end of a record with this report; None: all in-sync replicas have it. `last_error`: what the library said of
    the cluster most recently. An error that is not known may have come after the record was written."""
    if error is None:
        return DONE
    if error in _TIMED_OUT:
        return TargetEnd(End.TIMED_OUT, f"no acknowledgement in time{_because(last_error)}")
    if error in _REFUSED:
        return TargetEnd(End.REFUSED, _REFUSED[error], nothing_sent=True)
    if error in _NOT_WRITTEN:
        return TargetEnd(End.UNAVAILABLE, _NOT_WRITTEN[error], nothing_sent=True)
    if error == PURGED_SENT:
        return TargetEnd(End.STOPPED, "the producer was stopped before the acknowledgement")
    return TargetEnd(End.UNAVAILABLE, _PERHAPS_WRITTEN.get(error, f"the cluster answered {error}"))


def _because(last_error: str | None) -> str:
    if last_error is None:
        return ""
    said = {**_NOT_WRITTEN, **_PERHAPS_WRITTEN}.get(last_error, last_error)
    return f"; the last error of the cluster: {said}"
