"""How errors of an attempt are classified."""

import errno
import ssl

import pytest

from poller_cluster.delivery.result import (
    AttemptError,
    Verdict,
    because,
    not_connected,
    not_secured,
    refused,
    timed_out,
)
from scheduler_service.domain.network import Refusal


@pytest.mark.parametrize("error", ["bad-response", "reset", "stopped", "not-trusted"])
def test_errors_without_detail_get_a_default_detail(error: AttemptError) -> None:
    told = because(error)
    assert (told.error, told.final) == (error, False)
    assert told.detail


def test_what_the_policy_refuses_is_final() -> None:
    forbidden = Refusal("forbidden-address", "the network policy refuses 10.0.0.1 (private)")
    assert refused(forbidden) == Verdict("forbidden-address", forbidden.detail, final=True)


def test_connections() -> None:
    assert not_connected(OSError(errno.ECONNREFUSED, "")).error == "connect-refused"
    assert not_connected(OSError(errno.EHOSTUNREACH, "")).error == "connect-failed"
    assert not_connected(OSError()).error == "connect-failed"


def test_time_outs_say_what_was_waited_for() -> None:
    assert timed_out(0, timeout_seconds=10, connect_timeout_seconds=5).detail == "no connection within 5 s"
    assert timed_out(1, timeout_seconds=10, connect_timeout_seconds=5).detail == "no answer within 10 s"


def test_handshakes() -> None:
    assert not_secured(ConnectionError()) == Verdict("tls-failed", "the connection was closed during the TLS handshake")
    failed = ssl.SSLError(1, "")
    failed.reason = "x" * 5000
    assert not_secured(failed).error == "tls-failed"
    assert len(not_secured(failed).detail) == 200
