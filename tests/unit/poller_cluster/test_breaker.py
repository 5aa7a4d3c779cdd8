"""When attempts to a host are held back, for how long, and which attempt probes it."""

import pytest

from poller_cluster.dispatch.receivers import Breaker, Health, health
from poller_cluster.settings import ReceiverSettings
from tests.unit.poller_cluster.claimed import result

SETTINGS = ReceiverSettings(breaker_failures=3, breaker_open_seconds=10, breaker_longest_seconds=35)


def failed(breaker: Breaker, times: int, now: float = 0.0) -> list[bool]:
    return [breaker.ended(Health.BAD, generation=breaker.generation, now=now) for _ in range(times)]


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (200, None, Health.GOOD),
        (404, None, Health.GOOD),
        (410, None, Health.GOOD),
        (429, None, Health.BAD),
        (500, None, Health.BAD),
        (503, None, Health.BAD),
        (None, "timeout", Health.BAD),
        (None, "connect-refused", Health.BAD),
        (None, "resolve-failed", Health.BAD),
        (None, "proxy-failed", Health.BAD),
        (None, "reset", Health.BAD),
        (None, "not-trusted", Health.SILENT),
        (None, "stopped", Health.SILENT),
        (None, "forbidden-address", Health.SILENT),
        (None, "internal", Health.SILENT),
        (None, "bad-request", Health.SILENT),
    ],
)
def test_what_an_attempt_says_of_its_host(status: int | None, error: str | None, says: Health) -> None:
    assert health(result(status, error=error)) is says


def test_failures_in_a_row_open_it() -> None:
    breaker = Breaker(SETTINGS)
    assert failed(breaker, 2) == [False, False]
    assert breaker.ended(Health.GOOD, generation=breaker.generation, now=0) is False
    assert failed(breaker, 3) == [False, False, True]
    assert breaker.is_open(9.9)
    assert not breaker.is_open(10)
    assert not breaker.closed


def test_a_silent_outcome_does_not_change_the_breaker() -> None:
    breaker = Breaker(SETTINGS)
    failed(breaker, 2)
    assert not breaker.ended(Health.SILENT, generation=breaker.generation, now=0)
    assert failed(breaker, 1) == [True]


def test_every_failed_trial_doubles_the_time_up_to_the_longest() -> None:
    breaker, now, lasted = Breaker(SETTINGS), 0.0, []
    failed(breaker, 3)
    for _ in range(4):
        lasted.append(breaker.until - now)
        now = breaker.until
        assert failed(breaker, 1, now) == [True]
    assert lasted == [10, 20, 35, 35]


def test_a_success_closes_it_and_forgets_how_long_it_was_open() -> None:
    breaker = Breaker(SETTINGS)
    failed(breaker, 3)
    failed(breaker, 1, 10)
    assert breaker.ended(Health.GOOD, generation=breaker.generation, now=30)
    assert breaker.closed
    assert breaker.spotless
    failed(breaker, 3, 40)
    assert breaker.until == 50


def test_attempts_begun_before_it_opened_do_not_open_it_again() -> None:
    breaker = Breaker(SETTINGS)
    before = breaker.generation
    failed(breaker, 3)
    assert not breaker.ended(Health.BAD, generation=before, now=11)
    assert not breaker.ended(Health.GOOD, generation=before, now=11)
    assert breaker.until == 10


def test_the_first_of_several_probes_decides() -> None:
    breaker = Breaker(SETTINGS)
    failed(breaker, 3)
    trial = breaker.generation
    assert breaker.ended(Health.BAD, generation=trial, now=10)
    assert not breaker.ended(Health.GOOD, generation=trial, now=11)
    assert breaker.is_open(29)


def test_a_failure_while_it_is_open_is_not_counted_but_a_success_closes_it() -> None:
    """Rows at their deadline are called whatever the state of the host's breaker."""
    breaker = Breaker(SETTINGS)
    failed(breaker, 3)
    assert failed(breaker, 5, 5) == [False] * 5
    assert breaker.until == 10
    assert breaker.ended(Health.GOOD, generation=breaker.generation, now=6)
    assert not breaker.is_open(7)
