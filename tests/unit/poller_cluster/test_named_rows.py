"""What becomes of rows whose destination can't be called, and when a paused one is looked at again."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.dispatch.named_rows import (
    LONGEST_MS,
    LOOK_LEAD_MS,
    ROWS_A_MINUTE,
    SHORTEST_MS,
    NamedRows,
    next_look,
)
from scheduler_service.domain.clients import LatePolicy
from scheduler_service.domain.ids import minute_of
from scheduler_service.domain.schedules import Outcome, State
from tests.unit.poller_cluster.claimed import NOW, claim, client, destination

DAY_MS = 86_400_000
PAUSED = st.integers(min_value=NOW - 400 * DAY_MS, max_value=NOW)


def judge(
    of: Any, for_client: Any, *, rows: NamedRows | None = None, now: int = NOW, name: str = "crm"
) -> Outcome | None:
    return (rows or NamedRows()).judge(of, for_client, name, now=now, judged_at=now, fraction=0.5)


@given(PAUSED, st.integers(min_value=0, max_value=DAY_MS))
def test_looks_come_within_half_of_the_pause_and_within_bounds(paused_at: int, after_ms: int) -> None:
    now = paused_at + after_ms
    look = next_look(paused_at, now)
    assert now < look <= now + min(max(after_ms // 2, SHORTEST_MS), LONGEST_MS)


@given(PAUSED, st.integers(min_value=0, max_value=DAY_MS))
def test_all_rows_until_a_look_wait_for_the_same_one(paused_at: int, after_ms: int) -> None:
    """However they come to be judged: by which node, how long before the look."""
    look = next_look(paused_at, paused_at + after_ms)
    assert next_look(paused_at, look - 1) == look
    assert next_look(paused_at, look) > look


def test_the_looks_after_a_pause_grow_to_ten_minutes() -> None:
    looks, at = [], NOW
    for _ in range(14):
        at = next_look(NOW, at)
        looks.append((at - NOW) // 1000)
    assert looks == [30, 60, 90, 135, 202, 303, 455, 683, 1025, 1537, 2137, 2737, 3337, 3937]


def test_a_pause_by_a_clock_that_is_ahead_is_looked_at_soon() -> None:
    assert next_look(NOW + DAY_MS, NOW) == NOW + SHORTEST_MS


def test_a_destination_that_can_be_called_changes_nothing() -> None:
    assert judge(claim(), client(destinations=[destination()])) is None


@pytest.mark.parametrize(("redelivery", "attempts"), [(False, 2), (True, 3)])
def test_a_row_whose_destination_is_gone_fails_without_an_attempt(redelivery: bool, attempts: int) -> None:
    """Perhaps an earlier owner made one: then its number is used up."""
    found = judge(claim(redelivery=redelivery, attempt_base=2), client(destinations=[destination("other")]))
    assert found is not None
    assert (found.state, found.reason, found.attempts) == (State.FAILED, "destination-deleted", attempts)


def test_a_locked_destination_defers_as_locked_headers_do() -> None:
    found = judge(claim(), client(destinations=[destination(locked="no key")]))
    assert found is not None
    assert (found.state, found.reason, found.attempts) == (State.RETRYING, "destination-locked", 0)
    assert found.next_attempt_at == NOW + 45_000


@pytest.mark.parametrize("options", ["{}", '{"in_doubt":true}', "no json"])
def test_a_paused_destination_defers_without_an_attempt(options: str) -> None:
    found = judge(claim(attempt_base=3, options=options), client(destinations=[destination(paused_at=NOW - 10_000)]))
    assert found is not None
    assert (found.state, found.attempts, found.next_attempt_at) == (State.RETRYING, 3, NOW + 20_000)
    assert found.reason == ("in-doubt" if "in_doubt" in options else "destination-paused")


def test_a_row_in_doubt_of_an_at_most_once_client_fails_as_ever() -> None:
    paused = client(destinations=[destination(paused_at=NOW)], in_doubt="drop")
    assert judge(claim(redelivery=True), paused) is None
    assert judge(claim(), paused) is not None


def test_a_row_due_at_a_look_waits_for_the_next_one() -> None:
    """It is claimed some seconds before its instant, which is the look."""
    paused, look = client(destinations=[destination(paused_at=NOW)]), NOW + 30_000
    found = judge(claim(due=look), paused, now=look - 5_000)
    assert found is not None
    assert found.next_attempt_at == NOW + 60_000


def test_rows_skip_a_look_that_is_too_near() -> None:
    paused = client(destinations=[destination(paused_at=NOW)])
    found = judge(claim(), paused, now=NOW + 30_000 - LOOK_LEAD_MS)
    assert found is not None
    assert found.next_attempt_at == NOW + 60_000


@pytest.mark.parametrize(("late_ms", "state"), [(60_000, State.RETRYING), (60_001, State.SKIPPED)])
def test_a_late_policy_counts_on(late_ms: int, state: State) -> None:
    paused = client(destinations=[destination(paused_at=NOW - 3_600_000)])
    options = '{"skip_after_seconds":60}'
    found = judge(claim(due=NOW - late_ms, options=options), paused)
    assert found is not None
    assert found.state is state
    repeated = judge(claim(due=NOW - late_ms, options=options, attempt_base=1), paused)
    assert repeated is not None
    assert repeated.state is State.RETRYING, "only first attempts are late"


def test_the_clients_own_late_policy_counts_too() -> None:
    hasty = client(late_policy=LatePolicy(kind="skip", after_seconds=1))
    paused = destination(paused_at=NOW - 3_600_000)
    served = replace(hasty, destinations={"crm": replace(paused, settings=hasty.settings)})
    found = judge(claim(due=NOW - 2_000), served)
    assert found is not None
    assert (found.state, found.reason) == (State.SKIPPED, "late")


def test_rows_beyond_what_a_minute_takes_wait_for_the_next_ones_in_their_order() -> None:
    rows, paused = NamedRows(), client(destinations=[destination(paused_at=NOW)])
    first = judge(claim(), paused, rows=rows)
    assert first is not None
    at = first.next_attempt_at
    assert at is not None
    looks = [judge(claim(tail=number), paused, rows=rows).next_attempt_at for number in range(2 * ROWS_A_MINUTE)]  # type: ignore[union-attr]
    assert looks == sorted(looks)  # type: ignore[type-var]
    minutes = [minute_of(look) for look in [at, *looks]]  # type: ignore[arg-type]
    assert [minutes.count(minute_of(at) + further) for further in range(3)] == [ROWS_A_MINUTE, ROWS_A_MINUTE, 1]


def test_a_slow_destination_takes_fewer_rows_a_minute() -> None:
    rows, slow = NamedRows(), client(destinations=[destination(paused_at=NOW, max_per_second=2)], quota=2)
    looks = [judge(claim(tail=number), slow, rows=rows).next_attempt_at for number in range(61)]  # type: ignore[union-attr]
    assert len({minute_of(look) for look in looks}) == 2  # type: ignore[arg-type]
    assert len({minute_of(look) for look in looks[:60]}) == 1  # type: ignore[arg-type]


def test_counts_of_minutes_that_have_passed_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poller_cluster.dispatch.named_rows._COUNTED", 3)
    rows = NamedRows()
    for number in range(20):
        at = NOW + number * 600_000
        judge(claim(due=at), client(destinations=[destination(paused_at=at)]), rows=rows, now=at)
        assert len(rows._filling) <= 3
