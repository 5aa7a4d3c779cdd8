"""Settings that contradict each other, and the table of the driver's errors."""

from typing import Any

import pytest
from cassandra import (
    AuthenticationFailed,
    InvalidRequest,
    OperationTimedOut,
    ReadFailure,
    Unavailable,
    WriteTimeout,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.protocol import ErrorMessage, ServerError, SyntaxException

from cql.errors import StoreRefused, translate, unanswered_reason
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge


@pytest.mark.parametrize(
    "wrong",
    [
        {"contact_points": ()},
        {"keyspace": "Mixed"},
        {"keyspace": "a; DROP KEYSPACE b"},
        {"username": "u"},
        {"password": "p"},
        {"tls_key_file": "k"},
        {"replication_factor": 0},
        {"group_commit_rows": 0},
        {"group_commit_bytes": 9_000_000},
    ],
)
def test_settings_that_can_not_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        StorageSettings(**wrong)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OperationTimedOut(), "client-timeout"),
        (WriteTimeout("x", write_type=4, consistency=6, required_responses=1, received_responses=0), "write-timeout"),
        (Unavailable("x", consistency=6, required_replicas=2, alive_replicas=1), "too-few-replicas"),
        (ReadFailure("x"), "replica-failure"),
        (NoHostAvailable("x", {}), "no-host"),
        (ConnectionShutdown("x"), "connection-lost"),
        (ServerError(0, "x", None), "server-error"),
        (ErrorMessage(0x1700, "CAS write unknown", None), "server-error"),
    ],
)
def test_unanswered_requests(error: Exception, reason: str) -> None:
    assert unanswered_reason(error) == reason
    told = translate(error, statement="a.b")
    assert isinstance(told, StoreUnavailable)
    assert reason in str(told)
    assert "a.b" in str(told)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest("Batch too large"), ContentTooLarge),
        (InvalidRequest("unconfigured table x"), StoreRefused),
        (AuthenticationFailed("Provided username u and/or password are incorrect"), StoreRefused),
        (SyntaxException(0x2000, "no viable alternative", None), StoreRefused),
    ],
)
def test_refused_requests(error: Exception, kind: type[Exception]) -> None:
    assert unanswered_reason(error) is None
    assert type(translate(error, statement="a.b")) is kind


def test_errors_of_the_program_stay_what_they_are() -> None:
    assert unanswered_reason(TypeError("x")) is None
    assert translate(TypeError("x"), statement="a.b") is None
