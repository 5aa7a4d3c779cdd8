"""How a node counts its calls to destinations, and what its port shows of one."""

from typing import Any

import pytest
from msgspec.structs import replace

from poller_cluster.counters import CallCounts
from poller_cluster.destination_counts import DestinationCounts
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.outcome import BEHIND_ITS_KEY, DESTINATION_LOCKED, RECEIVER_OPEN, TOKEN_UNAVAILABLE
from poller_cluster.dispatch.tokens import MAX_SOURCES, TokenKey
from scheduler_service.domain.destination_figures import NO_FIGURES
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import HOUR_MS, ClientId, UnixMillis
from scheduler_service.domain.retry_rows import DESTINATION_PAUSED
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW
from tests.support.token_fetches import DOWN
from tests.unit.poller_cluster.claimed import RowOwner, claim, result

SHOP, OTHER = ClientId("shop"), ClientId("other")
BILLING = "destination://billing/expire"


def job(url: str = BILLING, client_id: ClientId = SHOP, **row: Any) -> Job:
    one = claim(url=url, **row)
    return Job(RowOwner(client_id), one, one.row.due)


def deferred(reason: str | None, *, at: int = NOW + 30_000) -> Outcome:
    return Outcome(state=State.RETRYING, reason=reason, next_attempt_at=UnixMillis(at))


def test_attempts_are_counted_for_the_destination_that_their_row_names() -> None:
    counts = CallCounts()
    counts.attempt_made(job(), result(204))
    counts.attempt_made(job("destination://billing"), result(503))
    counts.attempt_made(job("destination://stock/x"), result(None, error="timeout"))
    counts.attempt_made(job("destination://topic"), result(None))
    counts.attempt_made(job("destination://topic"), result(None, error="unavailable"))
    counts.attempt_made(job("https://billing/expire"), result(204))
    counts.attempt_made(job(client_id=OTHER), result(204))
    billing, _ = counts.destinations.figures(SHOP, "billing", now=NOW)
    assert (billing.calls, billing.failures, sum(billing.answers)) == (2, 1, 2)
    stock, _ = counts.destinations.figures(SHOP, "stock", now=NOW)
    assert (stock.calls, stock.failures, sum(stock.answers)) == (1, 1, 0)
    topic, _ = counts.destinations.figures(SHOP, "topic", now=NOW)
    assert (topic.calls, topic.failures, sum(topic.answers)) == (2, 1, 1)
    assert counts.destinations.figures(OTHER, "stock", now=NOW) == (NO_FIGURES, 0)


@pytest.mark.parametrize("reason", [DESTINATION_PAUSED, DESTINATION_LOCKED, RECEIVER_OPEN, TOKEN_UNAVAILABLE])
def test_calls_that_come_back_later_for_its_sake_are_counted_until_then(reason: str) -> None:
    counts = CallCounts()
    row = claim(url=BILLING).row
    counts.recorded(SHOP, row, deferred(reason))
    counts.recorded(SHOP, row, deferred(reason, at=NOW + 31_000))
    assert counts.destinations.figures(SHOP, "billing", now=NOW) == (NO_FIGURES, 2)
    assert counts.destinations.figures(SHOP, "billing", now=NOW + 30_500) == (NO_FIGURES, 1)
    assert counts.destinations.figures(SHOP, "billing", now=NOW + 32_000) == (NO_FIGURES, 0)


@pytest.mark.parametrize("reason", [None, BEHIND_ITS_KEY])
def test_calls_that_come_back_for_another_reason_are_not(reason: str | None) -> None:
    counts = CallCounts()
    counts.recorded(SHOP, claim(url=BILLING).row, deferred(reason))
    assert counts.destinations.figures(SHOP, "billing", now=NOW) == (NO_FIGURES, 0)


def test_fetches_are_counted_by_result_and_those_that_failed_by_source() -> None:
    counts = CallCounts()
    source = TokenSource(client_id="c", client_secret="s", token_url="https://tokens.test/")
    for failure in (None, DOWN, DOWN):
        counts.token_fetched(TokenKey(SHOP, source), failure, now=NOW)
    counts.token_fetched(TokenKey(OTHER, source), DOWN, now=NOW)
    assert counts.token_fetches == {"granted": 1, "no-answer": 3, "refused": 0, "bad-answer": 0, "busy": 0}
    assert counts.destinations.token_failures(TokenKey(SHOP, source), now=NOW) == 2
    assert counts.destinations.token_failures(TokenKey(SHOP, replace(source, scope="other")), now=NOW) == 0
    assert counts.destinations.token_failures(TokenKey(SHOP, source), now=NOW + HOUR_MS) == 0


def test_of_many_sources_the_last_ones_are_counted() -> None:
    counts, source = DestinationCounts(), TokenSource(client_id="c", client_secret="s")
    keys = [TokenKey(SHOP, replace(source, scope=str(number))) for number in range(MAX_SOURCES + 1)]
    for key in keys:
        counts.token_failed(key, now=NOW)
    assert [counts.token_failures(key, now=NOW) for key in (keys[0], keys[1], keys[-1])] == [0, 1, 1]


def test_instants_that_have_passed_are_forgotten() -> None:
    counts = DestinationCounts()
    for second in range(10_000):
        row = claim(url=BILLING, due=NOW + second * 1000).row
        counts.recorded(SHOP, row, deferred(RECEIVER_OPEN, at=NOW + (second + 5) * 1000))
    assert counts.figures(SHOP, "billing", now=NOW + 9_999_000)[1] == 5
    assert counts.figures(SHOP, "billing", now=0)[1] < 3_000


def test_the_last_counted_destinations_are_kept() -> None:
    counts = DestinationCounts()
    for number in range(10_010):
        counts.attempt_made(SHOP, claim(url=f"destination://d{number}").row, result())
    assert counts.figures(SHOP, "d0", now=NOW)[0] == NO_FIGURES
    assert counts.figures(SHOP, "d10009", now=NOW)[0].calls == 1
