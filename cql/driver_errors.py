"""What the driver raises, in our words. The one table of this mapping.

Unanswered: nobody can say whether the request took effect. A conditional write is then Unknown with the reason,
all else raises StoreUnavailable. What was surely not sent is treated alike: callers must be prepared for both anyway.
"""

from typing import Final

from cassandra import (
    AuthenticationFailed,
    CoordinationFailure,
    InvalidRequest,
    OperationTimedOut,
    ReadTimeout,
    RequestExecutionException,
    RequestValidationException,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
    WriteTimeout,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException, ProtocolError
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import ErrorMessage, SyntaxException

from cql.errors import StoreRefused
from scheduler_service.domain.errors import ContentTooLarge, MinutehandError, StoreUnavailable

_UNANSWERED: Final[tuple[tuple[type[Exception], str], ...]] = (
    (OperationTimedOut, "client-timeout"),
    (WriteTimeout, "write-timeout"),
    (ReadTimeout, "read-timeout"),
    (Unavailable, "too-few-replicas"),
    (CoordinationFailure, "replica-failure"),
    (NoHostAvailable, "no-host"),
    (NoConnectionsAvailable, "no-connection"),
    (ConnectionBusy, "no-connection"),
    (ConnectionException, "connection-lost"),
    (UnresolvableContactPoints, "no-host"),
    (RequestExecutionException, "server-error"),
)
_REFUSED: Final[tuple[type[Exception], ...]] = (
    SyntaxException,
    Unauthorized,
    AuthenticationFailed,
    InvalidRequest,
    RequestValidationException,
    ProtocolError,
)
_TOO_LARGE_WORDS = ("too large", "too big")


def unanswered_reason(error: BaseException) -> str | None:
    """A stable word, if nobody knows what became of the request; None if it was refused or the program is wrong."""
    for kind, reason in _UNANSWERED:
        if isinstance(error, kind):
            return reason
    if isinstance(error, ErrorMessage) and not isinstance(error, _REFUSED):
        return "server-error"
    return None


def translate(error: BaseException, *, statement: str) -> MinutehandError | None:
    """The error to raise instead; None if it is not the driver's. The driver's text stays out of StoreUnavailable."""
    if (reason := unanswered_reason(error)) is not None:
        return StoreUnavailable(f"Cassandra gave no answer to {statement} ({reason}); try again.")
    if not isinstance(error, _REFUSED):
        return None
    text = str(error)
    if isinstance(error, InvalidRequest) and any(words in text.lower() for words in _TOO_LARGE_WORDS):
        return ContentTooLarge(f"Cassandra refused {statement} for its size; send less at once.")
    return StoreRefused(f"Cassandra refused {statement}: {text}")
