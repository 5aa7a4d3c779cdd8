"""How a node counts its calls: by class, lateness and client."""

from typing import Any, get_args

import pytest
from msgspec import structs

from poller_cluster.counters import BEYOND, CODE_CLASSES, DEFERRED, DURATION_BOUNDS, GUARANTEED, CallCounts
from poller_cluster.delivery.result import AttemptError
from poller_cluster.dispatch.job import Job
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.retry_rows import SUPERSEDED
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import RowOwner, claim, result

SHOP = ClientId("shop")


def job(client_id: ClientId = SHOP, *, over_quota: bool = False, **row: Any) -> Job:
    one = claim(**row)
    return Job(RowOwner(client_id), one, one.row.due, over_quota)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (204, None, "2xx"),
        (302, None, "3xx"),
        (404, None, "4xx"),
        (503, None, "5xx"),
        (999, None, "other"),
        (None, "timeout", "timeout"),
        (None, "connect-refused", "connect"),
        (None, "resolve-failed", "dns"),
        (None, "tls-failed", "tls"),
        (None, "proxy-failed", "connect"),
        (None, "forbidden-address", "refused_by_policy"),
        (None, "internal", "other"),
        (None, "unavailable", "unavailable"),
        (None, "rejected", "rejected"),
        (None, None, "acknowledged"),
    ],
)
def test_an_attempt_has_one_class(status: int | None, error: AttemptError | None, kind: str) -> None:
    counts = CallCounts()
    counts.attempt_made(job(), result(status, error=error))
    assert {name: count for name, count in counts.attempts.items() if count} == {("http", kind): 1}
    assert counts.durations["http"].count == 1


def test_a_long_calls_duration_is_told_from_that_of_one_that_takes_a_minute() -> None:
    counts = CallCounts()
    for seconds in (60.0, 61.0, 299.0, 600.0, 601.0):
        counts.attempt_made(job(), structs.replace(result(), duration_seconds=seconds))
    shown = dict(zip((*DURATION_BOUNDS, None), counts.durations["http"].counts, strict=True))
    assert {bound: one for bound, one in shown.items() if one} == {60.0: 1, 120.0: 1, 300.0: 1, 600.0: 1, None: 1}


def test_attempts_are_counted_by_the_kind_of_what_was_called() -> None:
    counts = CallCounts()
    counts.attempt_made(job(), result())
    for error in (None, "unavailable", "unavailable"):
        counts.attempt_made(job(), structs.replace(result(None, error=error), kind="kafka"))
    found = {name: count for name, count in counts.attempts.items() if count}
    assert found == {("http", "2xx"): 1, ("kafka", "acknowledged"): 1, ("kafka", "unavailable"): 2}
    assert {kind: one.count for kind, one in counts.durations.items()} == {"http": 1, "kafka": 3}


def test_every_attempt_falls_into_a_known_class() -> None:
    counts = CallCounts()
    for error in get_args(AttemptError):
        counts.attempt_made(job(), result(None, error=error))
    for status in range(100, 1000):
        counts.attempt_made(job(), result(status))
    assert tuple(counts.attempts) == tuple(("http", one) for one in CODE_CLASSES)


def test_lateness_is_the_first_attempts() -> None:
    counts = CallCounts()
    counts.attempt_made(job(due=NOW - 1_500), result(503))
    counts.attempt_made(job(due=NOW + 5), result())
    counts.attempt_made(job(due=NOW - 90_000, over_quota=True), result())
    counts.attempt_made(job(due=NOW - 40_000, kind="copy"), result())
    counts.attempt_made(job(due=NOW - 9_000, attempt_base=1, kind="copy"), result())
    counts.attempt_made(job(due=NOW - 9_000, first_attempt_at=NOW - 8_000), result())
    assert (counts.lateness[GUARANTEED].count, counts.lateness[GUARANTEED].sum) == (2, 1.5)
    assert (counts.lateness[BEYOND].count, counts.lateness[BEYOND].sum) == (1, 90.0)
    assert (counts.lateness[DEFERRED].count, counts.lateness[DEFERRED].sum) == (1, 40.0)
    (shop,) = [one for label, one in counts.clients.shown(0.0).items() if label == "shop"]
    assert (shop.fires, shop.lateness_seconds) == (4, 131.5)
    assert shop.failed_attempts == 1


def test_failed_attempts_of_a_client_are_counted_with_its_retries() -> None:
    counts = CallCounts()
    for asked, ended in (
        (job(), result(503)),
        (job(due=NOW - 9_000, attempt_base=1, kind="copy"), result(None, error="timeout")),
        (job(due=NOW - 9_000, attempt_base=1, kind="copy"), result()),
    ):
        counts.attempt_made(asked, ended)
    assert counts.clients.shown(0.0)["shop"].failed_attempts == 2


def test_wake_ups_of_crons_are_no_calls() -> None:
    counts = CallCounts()
    counts.attempt_made(job(CRON_CLIENT), result())
    counts.recorded(CRON_CLIENT, claim().row, Outcome(state=State.DELIVERED))
    assert not any(counts.attempts.values())
    assert not any(counts.outcomes.values())


def test_ends_are_counted_once_each() -> None:
    counts = CallCounts()
    for state, reason in [
        (State.DELIVERED, None),
        (State.RETRYING, None),
        (State.FAILED, "exhausted"),
        (State.SKIPPED, "late"),
        (State.CANCELLED, "cron-changed"),
        (State.DELIVERED, SUPERSEDED),
    ]:
        counts.recorded(SHOP, claim().row, Outcome(state=state, reason=reason))
    assert counts.outcomes == {"delivered": 1, "failed": 1, "skipped": 1, "cancelled": 1}
    assert counts.skipped == {"late": 1}
