"""How many overdue rows may be claimed by the overdue rates, and which of a minute's rows wait for that."""

from types import SimpleNamespace
from typing import Any

import pytest

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.job import Job
from poller_cluster.minute.overdue_admission import FOR_TOKENS, OverdueAdmission
from poller_cluster.minute.rows import Hold, PendingRow
from scheduler_service.domain.clients import LatePolicy
from scheduler_service.domain.overdue_rates import OVERDUE_AFTER_MS
from tests.support.api import ManualClock
from tests.support.node_parts import overdue_calls
from tests.unit.poller_cluster.builders import PARTITION, at, row
from tests.unit.poller_cluster.claimed import client

RATE = 10.0


class Judged:
    """One minute whose first row has just become overdue, on a node with a share of its client's pollers."""

    def __init__(
        self, rate: float | None = RATE, *, share: float = 1.0, of_all: float | None = None, **settings: Any
    ) -> None:
        self.clock = ManualClock(at(0) + OVERDUE_AFTER_MS)
        self.calls = overdue_calls(self.clock, share=share, rate_of_all=of_all)
        self.client: ServedClient = client(overdue_per_second=rate, **settings)
        self.woken = 0
        self.calls.judged_at = self.clock.wall_ms
        dispatcher: Any = SimpleNamespace(overdue_calls=self.calls)
        self.admission = OverdueAdmission(
            client_id=PARTITION.client_id,
            minute=PARTITION.minute,
            dispatcher=dispatcher,
            wall_ms=self.clock.wall_ms,
            wake_minute=self._wake,
        )

    def _wake(self, minute: object) -> None:
        self.woken += 1

    def needs_token(self, entry: PendingRow) -> bool:
        self.admission.begin({}, self.client)
        judged = entry.row.due <= self.admission.due_by
        return judged and self.admission.needs_token(entry, self.clock.wall_ms())

    def claim(self, rows: int) -> int:
        """Claim rows while there is room; returns how many were."""
        self.admission.begin({}, self.client)
        for number in range(rows):
            entry = PendingRow(row(0, number), redelivery=False)
            if self.admission.refused(entry) is not None:
                return number
            self.admission.claiming(entry)
        return rows

    def enter(self, rows: int) -> list[Job]:
        """The claim of so many rows is over."""
        owner: Any = SimpleNamespace(client_id=PARTITION.client_id)
        self.admission.answered()
        jobs = []
        for number in range(rows):
            entry = PendingRow(row(0, number), redelivery=False)
            entry.overdue = True
            jobs.append(Job(owner, entry.claim(), entry.row.due))
            self.calls.enter(jobs[-1])
        return jobs

    def start(self, rows: int) -> None:
        for job in self.enter(rows):
            self.calls.started(job)


def pending(seconds: float, *, found_at: int = 0) -> PendingRow:
    return PendingRow(row(seconds, 1), redelivery=False, found_at=found_at)


def test_rows_need_a_token_from_a_minute_after_their_due_on() -> None:
    judged = Judged()
    assert judged.needs_token(pending(0))
    assert not judged.needs_token(pending(0.001))


def test_a_row_found_late_counts_from_then() -> None:
    judged = Judged()
    assert not judged.needs_token(pending(0, found_at=at(1)))


@pytest.mark.parametrize(("rate", "of_all", "needed"), [(None, None, False), (None, 5.0, True), (5.0, None, True)])
def test_without_a_rate_nothing_is_overdue(rate: float | None, of_all: float | None, needed: bool) -> None:
    assert Judged(rate, of_all=of_all).needs_token(pending(0)) is needed


def test_a_row_that_is_skipped_needs_no_token() -> None:
    assert not Judged(late_policy=LatePolicy(kind="skip", after_seconds=30)).needs_token(pending(0))


def test_a_node_begins_without_room_and_gets_its_share_of_the_rate() -> None:
    judged = Judged(share=0.5)
    assert judged.claim(1) == 0
    started = 0
    for _ in range(100):
        judged.clock.advance(0.1)
        claimed = judged.claim(10)
        judged.start(claimed)
        started += claimed
    assert started == RATE * 0.5 * 10
    assert judged.calls.started_calls == started


@pytest.mark.parametrize("idle_seconds", [1.0, 3_600.0])
def test_no_more_is_saved_up_than_half_a_second_of_it(idle_seconds: float) -> None:
    judged = Judged()
    judged.claim(1)
    judged.clock.advance(idle_seconds)
    assert judged.claim(100) == RATE / 2


def test_claimed_rows_that_have_not_started_take_up_the_rate() -> None:
    judged = Judged()
    judged.claim(1)
    judged.clock.advance(10)
    rows = judged.claim(100)
    jobs = judged.enter(rows)
    judged.clock.advance(10)
    assert judged.claim(100) == 0
    judged.calls.started(jobs[0])
    assert judged.claim(100) == 1


def test_rows_that_are_given_back_have_used_nothing() -> None:
    judged = Judged()
    judged.claim(1)
    judged.clock.advance(10)
    for job in judged.enter(judged.claim(100)):
        judged.calls.leave(job)
    assert judged.claim(100) == RATE / 2
    assert judged.calls.started_calls == 0


def test_an_attempt_that_sent_nothing_waits_with_its_token() -> None:
    judged = Judged()
    judged.claim(1)
    judged.clock.advance(10)
    jobs = judged.enter(judged.claim(100))
    for job in jobs:
        judged.calls.started(job)
        judged.calls.not_sent(job)
    judged.clock.advance(10)
    assert judged.claim(100) == 0
    for job in jobs:
        judged.calls.leave(job)
    assert judged.claim(100) == RATE / 2


def test_the_lower_of_both_rates_holds() -> None:
    judged = Judged(RATE, of_all=4.0)
    judged.claim(1)
    judged.clock.advance(10)
    assert judged.claim(100) == 2


def test_a_refused_row_is_held_and_its_minute_woken_when_there_is_room() -> None:
    judged = Judged()
    judged.admission.begin({}, judged.client)
    held = judged.admission.refused(pending(0))
    assert isinstance(held, Hold)
    assert held.queue == FOR_TOKENS
    assert judged.calls.held == 1
    judged.clock.advance(0.05)
    assert judged.woken == 0
    judged.clock.advance(0.1)
    assert judged.woken == 1
    assert judged.admission.again(judged.client).rows == 1


def test_a_minute_that_is_over_is_not_woken() -> None:
    judged = Judged()
    judged.admission.begin({}, judged.client)
    judged.admission.refused(pending(0))
    judged.admission.closed()
    judged.clock.advance(10)
    assert (judged.woken, judged.calls.held) == (0, 0)


def test_all_rows_are_judged_again_once_the_rate_is_removed() -> None:
    judged = Judged()
    assert judged.admission.again(client()).rows > 1_000_000
