"""Why an attempt has no final status: stable codes, and a sentence for people."""

import errno
import os
import ssl
from dataclasses import dataclass

from poller_cluster.delivery.policy import Refusal
from poller_cluster.delivery.result import AttemptError

_DETAIL_LENGTH = 200
_SENTENCES: dict[AttemptError, str] = {
    "bad-response": "the receiver's answer is not valid HTTP",
    "reset": "the receiver closed or reset the connection before answering",
    "stopped": "the engine was stopped meanwhile",
    "not-trusted": "this node lost its right to act before the request was sent",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    error: AttemptError
    detail: str
    final: bool = False


def because(error: AttemptError) -> Verdict:
    """For errors whose detail is always the same."""
    return Verdict(error, _SENTENCES[error])


def refused(refusal: Refusal) -> Verdict:
    """The network policy left no address to try."""
    return Verdict(refusal.code, refusal.detail, final=True)


def timed_out(sends: int, *, timeout_seconds: float, connect_timeout_seconds: float) -> Verdict:
    """`sends`: how often the request was begun."""
    if sends:
        return Verdict("timeout", f"no answer within {timeout_seconds:g} s")
    return Verdict("timeout", f"no connection within {connect_timeout_seconds:g} s")


def not_connected(error: OSError) -> Verdict:
    """No address could be connected to; the error of the last one."""
    refusing = error.errno == errno.ECONNREFUSED
    return Verdict(
        "connect-refused" if refusing else "connect-failed", f"could not connect: {os.strerror(error.errno or 0)}"
    )


def not_secured(error: Exception) -> Verdict:
    """The TLS handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = f"the certificate is not to be trusted: {error.verify_message}"
    elif isinstance(error, ssl.SSLError):
        detail = f"the TLS handshake failed: {error.reason}"
    else:
        detail = "the connection was closed during the TLS handshake"
    return Verdict("tls-failed", detail[:_DETAIL_LENGTH])
