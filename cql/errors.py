"""Errors of this room: those of the driver translated in one table, and those that an operator must act upon.

*Unanswered* means that it is unknown whether the request took effect. A conditional write is then Unknown with the
reason, all else raises StoreUnavailable. Requests that were certainly not sent are treated alike: callers must handle
both anyway.
"""

from collections.abc import Iterator
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

from cql.settings import StorageSettings
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge

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
UNANSWERED_REASONS: Final = tuple(dict.fromkeys(reason for _, reason in _UNANSWERED))
"""All values of `unanswered_reason`."""
_REFUSED: Final[tuple[type[Exception], ...]] = (
    SyntaxException,
    Unauthorized,
    AuthenticationFailed,
    InvalidRequest,
    RequestValidationException,
    ProtocolError,
)
_TOO_LARGE_WORDS = ("too large", "too big")
_TLS: Final[tuple[tuple[str, str], ...]] = (
    (
        "hostname mismatch",
        "has a certificate for another name: set cassandra.tls_server_name to the name that the servers' certificates "
        "carry, or have their addresses put in",
    ),
    (
        "ip address mismatch",
        "has a certificate without that address: set cassandra.tls_server_name to the name that the servers' "
        "certificates carry, or have their addresses put in",
    ),
    ("certificate has expired", "has a certificate that has expired: have it renewed"),
    (
        "certificate verify failed",
        "has a certificate that no authority in cassandra.tls_ca_file has signed: name the file of its authority",
    ),
    (
        "wrong version number",
        "does not speak TLS on this port: leave cassandra.tls_ca_file out, or name the port that does",
    ),
    (
        "record layer failure",
        "does not speak TLS on this port: leave cassandra.tls_ca_file out, or name the port that does",
    ),
    ("certificate required", "requires our certificate: set cassandra.tls_cert_file and cassandra.tls_key_file"),
    ("bad certificate", "refuses our certificate: see cassandra.tls_cert_file"),
    ("unknown ca", "refuses our certificate: see cassandra.tls_cert_file"),
    ("handshake failure", "ended the TLS handshake: it may require our certificate (cassandra.tls_cert_file)"),
)
"""Texts of the TLS library (the driver passes on only its message) with advice. The first match counts."""
_HUNG_UP: Final = ("connection reset", "was closed", "has been closed", "socket is closed", "connection is closed")


class StoreRefused(MinutehandError):
    """Cassandra understood a request and refused it: a wrong schema, missing rights, or a bug of this program."""


class SchemaOutdated(MinutehandError):
    """The keyspace is missing or older than this program needs."""


class ProgramOutdated(MinutehandError):
    """The keyspace has dropped something that this program uses: a newer release is needed."""


class WrongHome(MinutehandError):
    """The configured home data centre is not the one that the keyspace was created for."""


class MigrationFailed(MinutehandError):
    """A migration can't continue. What was applied stays; running it again continues from there."""


def unanswered_reason(error: BaseException) -> str | None:
    """A stable word if the request's outcome is unknown; None if it was refused or the program has a bug."""
    for kind, reason in _UNANSWERED:
        if isinstance(error, kind):
            return reason
    if isinstance(error, ErrorMessage) and not isinstance(error, _REFUSED):
        return "server-error"
    return None


def translate(error: BaseException, *, statement: str) -> MinutehandError | None:
    """The error to raise instead; None if it is not the driver's. StoreUnavailable leaves out the driver's text."""
    if (reason := unanswered_reason(error)) is not None:
        return StoreUnavailable(f"Cassandra did not answer {statement} ({reason}); try again.")
    if not isinstance(error, _REFUSED):
        return None
    text = str(error)
    if isinstance(error, InvalidRequest) and any(words in text.lower() for words in _TOO_LARGE_WORDS):
        return ContentTooLarge(f"Cassandra refused {statement} for its size; send less at once.")
    return StoreRefused(f"Cassandra refused {statement}: {text}")


def nobody_answers(settings: StorageSettings) -> StoreUnavailable:
    """The error where no server can be connected to."""
    return StoreUnavailable(
        f"No Cassandra answers at {', '.join(settings.contact_points)}, port {settings.port}: start it, or change "
        "cassandra.contact_points or cassandra.port."
    )


def why_not_let_in(error: BaseException, settings: StorageSettings) -> StoreRefused | None:
    """Why no server accepted the connection, if login or TLS is the reason: from the first server that reports it."""
    for one in _of_each_server(error):
        words = " ".join(str(one).lower().replace("_", " ").split())
        if isinstance(one, AuthenticationFailed):
            if not settings.logs_in:
                return _refused(settings, "requires a login: set cassandra.username and cassandra.password, or files")
            return _refused(settings, "refuses the user or the password: see cassandra.username and cassandra.password")
        for said, advice in _TLS:
            if said in words:
                return _refused(settings, advice)
        if settings.tls_ca_file is None and any(said in words for said in _HUNG_UP):
            return _refused(settings, "closes plain connections: if it speaks only TLS, set cassandra.tls_ca_file")
    return None


def _of_each_server(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict):
        yield from error.errors.values()
    else:
        yield error


def _refused(settings: StorageSettings, detail: str) -> StoreRefused:
    return StoreRefused(f"Cassandra at {', '.join(settings.contact_points)}, port {settings.port}, {detail}.")
