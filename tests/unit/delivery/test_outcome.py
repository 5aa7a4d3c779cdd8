"""libcurl's endings and what we call them."""

import errno
from typing import Any

import pycurl
import pytest

from poller_cluster.delivery.outcome import Ending, Verdict, judge
from scheduler_service.domain.network import Refusal

FORBIDDEN = Refusal("forbidden-address", "the network policy refuses 10.0.0.1 (private)")


def verdict(code: int, **differing: Any) -> Verdict:
    values: dict[str, Any] = {
        "code": code,
        "message": "libcurl's words",
        "os_errno": 0,
        "sends": 0,
        "timeout_seconds": 10.0,
        "connect_timeout_seconds": 5.0,
        "refusal": None,
        "untrusted": False,
        "repeat_refused": False,
        "failure": None,
    }
    return judge(Ending(**(values | differing)))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (pycurl.E_COULDNT_RESOLVE_HOST, "resolve-failed"),
        (pycurl.E_COULDNT_CONNECT, "connect-failed"),
        (pycurl.E_OPERATION_TIMEDOUT, "timeout"),
        (pycurl.E_SSL_CONNECT_ERROR, "tls-failed"),
        (pycurl.E_PEER_FAILED_VERIFICATION, "tls-failed"),
        (pycurl.E_GOT_NOTHING, "reset"),
        (pycurl.E_SEND_ERROR, "reset"),
        (pycurl.E_RECV_ERROR, "reset"),
        (pycurl.E_HTTP2, "reset"),
        (8, "bad-response"),
        (100, "bad-response"),
        (pycurl.E_OUT_OF_MEMORY, "internal"),
        (12345, "internal"),
        (0, "bad-response"),
    ],
)
def test_libcurl_s_codes(code: int, error: str) -> None:
    told = verdict(code)
    assert (told.error, told.final) == (error, False)
    assert told.detail


def test_a_refused_connection() -> None:
    assert verdict(pycurl.E_COULDNT_CONNECT, os_errno=errno.ECONNREFUSED).error == "connect-refused"


@pytest.mark.parametrize("code", [pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_LOGIN_DENIED])
def test_bad_urls_are_final_before_the_request_and_bad_answers_after_it(code: int) -> None:
    assert verdict(code) == Verdict("bad-url", "libcurl's words", final=True)
    assert (verdict(code, sends=1).error, verdict(code, sends=1).final) == ("bad-response", False)


def test_time_outs_say_what_was_waited_for() -> None:
    assert verdict(pycurl.E_OPERATION_TIMEDOUT).detail == "no connection within 5 s"
    assert verdict(pycurl.E_OPERATION_TIMEDOUT, sends=1).detail == "no answer within 10 s"


def test_our_own_reasons_come_first() -> None:
    assert verdict(7, refusal=FORBIDDEN) == Verdict("forbidden-address", FORBIDDEN.detail, final=True)
    assert verdict(42, untrusted=True).error == "not-trusted"
    assert verdict(42, repeat_refused=True).error == "reset"
    assert verdict(7, failure="no socket could be opened: x") == Verdict("internal", "no socket could be opened: x")
    assert not verdict(42, untrusted=True).final


def test_details_are_short() -> None:
    assert len(verdict(pycurl.E_SSL_CONNECT_ERROR, message="x" * 5000).detail) == 200
