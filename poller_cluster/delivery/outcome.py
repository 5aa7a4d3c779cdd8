"""Why an attempt has no final status: what befell it, and libcurl's endings, mapped to stable codes."""

import errno
import os
import ssl
from dataclasses import dataclass

import pycurl

from poller_cluster.delivery.policy import Refusal
from poller_cluster.delivery.result import AttemptError

WEIRD_SERVER_REPLY = 8
"""A CURLE_* that pycurl has no name for."""
_LIBCURL_LOGIN_DENIED = pycurl.E_LOGIN_DENIED
_LIBCURL_TOO_LARGE = 100
_LIBCURL_ECH_REQUIRED = 101
_HTTP2_STREAM = 92
_DETAIL_LENGTH = 200

_TABLE: dict[int, AttemptError] = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "bad-url",
    pycurl.E_URL_MALFORMAT: "bad-url",
    _LIBCURL_LOGIN_DENIED: "bad-url",
    pycurl.E_COULDNT_RESOLVE_HOST: "resolve-failed",
    pycurl.E_COULDNT_RESOLVE_PROXY: "resolve-failed",
    pycurl.E_ABORTED_BY_CALLBACK: "resolve-failed",
    pycurl.E_COULDNT_CONNECT: "connect-failed",
    pycurl.E_NO_CONNECTION_AVAILABLE: "connect-failed",
    pycurl.E_OPERATION_TIMEDOUT: "timeout",
    pycurl.E_SSL_CONNECT_ERROR: "tls-failed",
    pycurl.E_PEER_FAILED_VERIFICATION: "tls-failed",
    pycurl.E_SSL_CERTPROBLEM: "tls-failed",
    pycurl.E_SSL_CIPHER: "tls-failed",
    pycurl.E_SSL_CACERT_BADFILE: "tls-failed",
    pycurl.E_SSL_ISSUER_ERROR: "tls-failed",
    pycurl.E_SSL_INVALIDCERTSTATUS: "tls-failed",
    pycurl.E_USE_SSL_FAILED: "tls-failed",
    _LIBCURL_ECH_REQUIRED: "tls-failed",
    pycurl.E_GOT_NOTHING: "reset",
    pycurl.E_SEND_ERROR: "reset",
    pycurl.E_RECV_ERROR: "reset",
    pycurl.E_PARTIAL_FILE: "reset",
    pycurl.E_HTTP2: "reset",
    _HTTP2_STREAM: "reset",
    WEIRD_SERVER_REPLY: "bad-response",
    pycurl.E_BAD_CONTENT_ENCODING: "bad-response",
    _LIBCURL_TOO_LARGE: "bad-response",
}
_FINAL: frozenset[AttemptError] = frozenset({"bad-url", "bad-request"})
_SENTENCES: dict[AttemptError, str] = {
    "bad-response": "the receiver's answer is not valid HTTP",
    "reset": "the receiver closed or reset the connection before answering",
    "resolve-failed": "the name has no address",
    "stopped": "the engine was stopped meanwhile",
    "not-trusted": "this node lost its right to act before the request was sent",
}
"""Instead of libcurl's text, where that may quote the receiver or misses the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How libcurl ended a transfer without a final status.

    `code` is its CURLcode (0: it holds the transfer for done), `os_errno` the system's error of the last connect,
    `sends` how often the request was begun. `refusal` is the network policy's where it left no address to try,
    `untrusted` that `may_start` said no, `repeat_refused` that libcurl wanted to send an at-most-once request again,
    `failure` what went wrong on our side.
    """

    code: int
    message: str
    os_errno: int
    sends: int
    timeout_seconds: float
    connect_timeout_seconds: float
    refusal: Refusal | None
    untrusted: bool
    repeat_refused: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    error: AttemptError
    detail: str
    final: bool = False


def because(error: AttemptError) -> Verdict:
    """For errors whose detail is always the same."""
    return _verdict(error)


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


def judge(ending: Ending) -> Verdict:
    """What to call it. Our own reasons come first, for libcurl only sees their consequences."""
    if ending.failure is not None:
        return Verdict("internal", ending.failure)
    if ending.repeat_refused:
        return _verdict("reset")
    if ending.untrusted:
        return _verdict("not-trusted")
    if ending.refusal is not None:
        return refused(ending.refusal)
    if ending.code == 0:
        return _verdict("bad-response")
    error = _TABLE.get(ending.code, "internal")
    if ending.sends and error in _FINAL:
        return _verdict("bad-response")
    if error == "connect-failed" and ending.os_errno == errno.ECONNREFUSED:
        error = "connect-refused"
    if error == "timeout":
        return timed_out(
            ending.sends, timeout_seconds=ending.timeout_seconds, connect_timeout_seconds=ending.connect_timeout_seconds
        )
    return _verdict(error, ending.message)


def _verdict(error: AttemptError, message: str = "") -> Verdict:
    detail = _SENTENCES.get(error) or message[:_DETAIL_LENGTH] or "the attempt failed"
    return Verdict(error, detail, final=error in _FINAL)
