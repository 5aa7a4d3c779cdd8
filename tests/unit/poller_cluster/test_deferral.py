"""When a row that may not be called now is called instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from poller_cluster.dispatch.outcome import defer, until_open_again
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import DAY_MS, UnixMillis
from scheduler_service.domain.options import NO_OPTIONS, Redelivery, RetryOverride, ScheduleOptions
from scheduler_service.domain.schedules import State
from scheduler_service.domain.waits import Waits, fired_by_of
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import claim

AT = UnixMillis(NOW + 30_000)


@given(due=st.integers(NOW - 5_000, NOW + 5_000), at=st.integers(NOW - 5_000, NOW + 5_000))
def test_no_row_is_deferred_to_its_own_instant_or_before(due: int, at: int) -> None:
    """It would be its own retry row: a pointer to itself, never called."""
    found = defer(claim(due=due), at=UnixMillis(at), in_doubt=False, reason="ordering")
    assert found.next_attempt_at == max(at, due + 1)


def test_deferral_records_no_attempt_and_no_sender() -> None:
    one = claim(attempt_base=4, first_attempt_at=NOW - 60_000)
    found = defer(one, at=AT, in_doubt=False, reason="ordering")
    assert (found.state, found.attempts, found.first_attempt_at) == (State.RETRYING, 4, NOW - 60_000)
    assert (fired_by_of(found.fired_by), found.fired_epoch, found.finished_at) == (None, None, None)


def test_deferral_counts_the_time_since_the_rows_own_instant_once() -> None:
    waits = Waits("n@1 waited flow=100,receiver=7")
    waits.add("flow", 1_000)
    one = structs.replace(claim(due=NOW - 5_000), waits=waits)
    for _ in range(2):
        found = defer(one, at=AT, in_doubt=False, reason="ordering", behind="x")
        assert found.fired_by == "n@1 waited flow=1100,receiver=7,ordering=34000/x"


def test_doubt_outlasts_being_deferred() -> None:
    assert defer(claim(), at=AT, in_doubt=True, reason="ordering").reason == "in-doubt"
    for one, options in ((claim(redelivery=True), NO_OPTIONS), (claim(), ScheduleOptions(in_doubt=True))):
        found = until_open_again(one, options=options, settings=ClientSettings(), at=AT, now=NOW)
        assert found is not None
        assert found.reason == "in-doubt"


def test_a_row_that_must_not_be_called_again_is_left_to_fail() -> None:
    settings = ClientSettings(in_doubt="drop")
    assert until_open_again(claim(redelivery=True), options=NO_OPTIONS, settings=settings, at=AT, now=NOW) is None
    assert until_open_again(claim(), options=NO_OPTIONS, settings=settings, at=AT, now=NOW) is not None


@pytest.mark.parametrize("options", [NO_OPTIONS, ScheduleOptions(retry=RetryOverride(deadline_seconds=60))])
def test_the_deadline_counts_from_the_due_or_the_first_attempt(options: ScheduleOptions) -> None:
    settings = ClientSettings(retry=RetrySettings(deadline_seconds=60 if options is NO_OPTIONS else 600_000))
    tried = {"due": NOW - 120_000, "kind": "copy", "attempt_base": 1}
    late = until_open_again(claim(**tried), options=options, settings=settings, at=AT, now=NOW)
    assert late is not None
    assert (late.state, late.reason, late.attempts, late.finished_at) == (State.FAILED, "deadline", 1, NOW)
    doubtful = until_open_again(claim(**tried, redelivery=True), options=options, settings=settings, at=AT, now=NOW)
    assert doubtful is not None
    assert (doubtful.reason, doubtful.attempts) == ("deadline", 2)
    recent = claim(**tried, first_attempt_at=NOW - 10_000)
    found = until_open_again(recent, options=options, settings=settings, at=AT, now=NOW)
    assert found is not None
    assert found.state is State.RETRYING


def test_no_row_fails_without_an_attempt() -> None:
    settings = ClientSettings()
    old = {"due": NOW - 2 * DAY_MS, "attempt_base": 0}
    fresh = until_open_again(claim(**old), options=NO_OPTIONS, settings=settings, at=AT, now=NOW)
    assert fresh is not None
    assert fresh.state is State.RETRYING
    again = claim(**old, kind="copy")
    assert until_open_again(again, options=NO_OPTIONS, settings=settings, at=AT, now=NOW) is None


def test_a_redelivery_is_judged_by_attempts_since_its_request() -> None:
    settings = ClientSettings(retry=RetrySettings(deadline_seconds=60))
    long_ago = {"due": NOW - 600_000, "first_attempt_at": NOW - 600_000, "kind": "copy"}
    fresh = ScheduleOptions(redelivery=Redelivery(at=NOW, attempts=4))
    found = until_open_again(claim(**long_ago, attempt_base=4), options=fresh, settings=settings, at=AT, now=NOW)
    assert found is not None
    assert found.state is State.RETRYING
    stale = ScheduleOptions(redelivery=Redelivery(at=NOW - 120_000, attempts=4))
    untried = claim(**long_ago, attempt_base=4)
    assert until_open_again(untried, options=stale, settings=settings, at=AT, now=NOW) is None
    tried = until_open_again(claim(**long_ago, attempt_base=5), options=stale, settings=settings, at=AT, now=NOW)
    assert tried is not None
    assert (tried.state, tried.reason) == (State.FAILED, "deadline")


def test_a_retry_row_never_finishes_before_its_due() -> None:
    settings = ClientSettings(retry=RetrySettings(deadline_seconds=60))
    of = claim(due=NOW - 120_000)
    ahead = claim(due=NOW + 4_000, schedule_id=of.row.schedule_id, kind="copy", attempt_base=1)
    found = until_open_again(ahead, options=NO_OPTIONS, settings=settings, at=AT, now=NOW)
    assert found is not None
    assert (found.state, found.finished_at) == (State.FAILED, NOW + 4_000)
