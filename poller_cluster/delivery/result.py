"""The result of one attempt, and the reasons why it may have no final status."""

import errno
import os
import ssl
from dataclasses import dataclass
from typing import Literal

import msgspec

from scheduler_service.domain.end_notices import KeptAnswer
from scheduler_service.domain.network import Refusal
from scheduler_service.domain.targets import HTTP
from scheduler_service.domain.verbs import Asked, Heeded

AttemptError = Literal[
    "bad-request",
    "bad-response",
    "bad-url",
    "connect-failed",
    "connect-refused",
    "forbidden-address",
    "forbidden-port",
    "internal",
    "not-trusted",
    "proxy-failed",
    "rejected",
    "reset",
    "resolve-failed",
    "stopped",
    "timeout",
    "tls-failed",
    "unavailable",
]
"""Why an attempt has not succeeded, where no final status says it.

bad-url, bad-request               the request can't be made (final)
forbidden-address, forbidden-port  the network policy refuses the address or port (final)
resolve-failed                     the name has no address
connect-refused, connect-failed    no connection
proxy-failed                       there is no connection to the forward proxy, or from it to the receiver
tls-failed                         the handshake failed or the certificate is not to be trusted
timeout                            no answer within the request's time-out, or no connection within the connect time-out
reset                              the connection broke before an answer
bad-response                       the answer is not valid HTTP, exceeds its bounds before a status, or is a 101
not-trusted                        this node lost its right to act before anything was sent
stopped                            the engine was stopped meanwhile
rejected                           a target refused the call, and would again (final)
unavailable                        a target is away, or does not take calls now
internal                           a failure of this process: no descriptors, no memory, a bug
"""

_DETAIL_LENGTH = 200
_SENTENCES: dict[AttemptError, str] = {
    "bad-response": "the receiver's answer is not valid HTTP",
    "reset": "the receiver closed or reset the connection before answering",
    "stopped": "the engine was stopped meanwhile",
    "not-trusted": "this node lost its right to act before the request was sent",
}


class Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an observing engine reports beside the result. Seconds count from the start; None: that step was not
    reached. `headers`: as written, or as they would have been if nothing was. `addresses`: those tried, in order."""

    headers: tuple[tuple[str, str], ...]
    addresses: tuple[str, ...]
    connected_to: str | None
    resolved_seconds: float | None
    connected_seconds: float | None
    secured_seconds: float | None
    first_byte_seconds: float | None
    http_version: str | None
    response_headers: tuple[tuple[str, str], ...]


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Has a `status` or an `error`, never both: a final status that arrived decides. It has neither if a target that
    knows no statuses took the call (`delivery.targets`).

    `detail` is a short text for people, without payloads or secrets. `nothing_sent`: certainly nothing of the request
    left. `final`: refused by the engine, and would be again. `started_at_ms` is the wall time of the start,
    `duration_seconds` runs from there to the end. `excerpt` is the beginning of a failed attempt's body, undecodable
    bytes replaced. `retry_after_seconds` is what the receiver asked for, by seconds or by date (6 hours at most).
    `asked`: what else it asked for, and `heeded` what becomes of that, as the dispatcher decides.
    `observation`: set by observing engines, for attempts that were begun. `kind`: what the call went to.
    `answer`: for requests that keep theirs.
    """

    status: int | None
    error: AttemptError | None
    detail: str = ""
    nothing_sent: bool = False
    final: bool = False
    started_at_ms: int
    duration_seconds: float
    excerpt: str = ""
    retry_after_seconds: float | None = None
    asked: Asked | None = None
    heeded: Heeded | None = None
    observation: Observation | None = None
    kind: str = HTTP
    answer: KeptAnswer | None = None

    @property
    def succeeded(self) -> bool:
        if self.status is None:
            return self.error is None
        return 200 <= self.status <= 299


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an attempt has no final status: a stable code, and a sentence for people."""

    error: AttemptError
    detail: str
    final: bool = False


def because(error: AttemptError) -> Verdict:
    """The verdict for an error whose detail is always the same."""
    return Verdict(error, _SENTENCES[error])


def not_begun(verdict: Verdict, started_at_ms: int) -> AttemptResult:
    """The result of an attempt that was refused when it was handed in."""
    return AttemptResult(
        status=None,
        error=verdict.error,
        detail=verdict.detail,
        nothing_sent=True,
        final=verdict.final,
        started_at_ms=started_at_ms,
        duration_seconds=0.0,
    )


def refused(refusal: Refusal) -> Verdict:
    """The network policy left no address to try."""
    return Verdict(refusal.code, refusal.detail, final=True)


def timed_out(sends: int, *, timeout_seconds: float, connect_timeout_seconds: float) -> Verdict:
    """`sends`: how often the request was written."""
    if sends:
        return Verdict("timeout", f"no answer within {timeout_seconds:g} s")
    return Verdict("timeout", f"no connection within {connect_timeout_seconds:g} s")


def not_resolved(failure: str, *, proxied: bool) -> Verdict:
    """The look-up of the receiver's name, or of its forward proxy's, has failed: `no-address`, or no answer."""
    detail = "the name has no address" if failure == "no-address" else "no name server answered"
    return Verdict("proxy-failed", f"the forward proxy: {detail}") if proxied else Verdict("resolve-failed", detail)


def not_connected(error: OSError, *, proxied: bool = False) -> Verdict:
    """No address of the receiver, or of its forward proxy, could be connected to; `error` is that of the last one."""
    detail = f"could not connect: {os.strerror(error.errno or 0)}"
    if proxied:
        return Verdict("proxy-failed", f"the forward proxy: {detail}")
    return Verdict("connect-refused" if error.errno == errno.ECONNREFUSED else "connect-failed", detail)


def not_presented(error: OSError) -> Verdict:
    """The client certificate can't be used by this process."""
    if isinstance(error, ssl.SSLError):
        return Verdict("tls-failed", f"the client certificate is not usable: {error.reason}"[:_DETAIL_LENGTH])
    return Verdict("internal", f"the client certificate could not be loaded: {error.strerror}")


def not_secured(error: Exception) -> Verdict:
    """The TLS handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = f"the certificate is not trusted: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        detail = f"the TLS handshake failed: {error.reason}"
    else:
        detail = "the connection was closed during the TLS handshake"
    return Verdict("tls-failed", detail[:_DETAIL_LENGTH])
