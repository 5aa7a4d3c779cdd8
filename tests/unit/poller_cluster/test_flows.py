"""The limits of flow keys: what may be claimed, what may start, and which keys have state."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.dispatch.flows import CLAIMED_BEFORE_SECONDS, LOOKED_AT_SECONDS, FlowPlace, Flows, TooManyFlows
from poller_cluster.dispatch.receivers import LATER, SOON
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.flows import Flow, FlowLimits, FlowRules
from scheduler_service.domain.ids import ClientId

SHOP = ClientId("shop")
NO_RULES = ClientSettings()


class Known:
    """Flow keys at an instant that a test sets."""

    def __init__(self, *, most: int = 1000) -> None:
        self.now = 1000.0
        self.freed: list[ClientId] = []
        self.ticks = 0
        self.flows: Flows[str] = Flows(
            monotonic=lambda: self.now, flows_per_client=most, on_free=self.freed.append, on_tick=self._tick
        )

    def _tick(self) -> None:
        self.ticks += 1

    def of(
        self,
        key: str = "a",
        rate: float | None = None,
        parallelism: int | None = None,
        granted_at: float = -math.inf,
        settings: ClientSettings = NO_RULES,
    ) -> FlowPlace[str]:
        place = self.flows.place(SHOP, Flow(key, rate, parallelism), settings, granted_at=granted_at)
        assert place is not None
        return place

    def claim(self, place: FlowPlace[str]) -> None:
        place.claiming()
        place.state.outstanding += 1
        place.claimed(self.now)

    def call(self, place: FlowPlace[str]) -> None:
        self.claim(place)
        place.started(self.now)

    def end(self, place: FlowPlace[str]) -> None:
        place.ended(self.now)
        place.released(self.now)

    def tick(self) -> list[str]:
        return list(self.flows.tick(self.now))


# Limits.


def test_a_flow_key_without_limits_keeps_no_state() -> None:
    known = Known()
    assert known.flows.place(SHOP, Flow("a"), NO_RULES) is None
    assert known.flows.count() == 0


def test_rules_apply_as_they_are_when_a_row_is_judged() -> None:
    known = Known()
    one, two = (ClientSettings(flows=FlowRules(default=FlowLimits(parallelism=most))) for most in (1, 2))
    known.call(known.of(settings=one))
    assert known.of(settings=one).headroom(known.now) == 0
    assert known.of(settings=two).headroom(known.now) == 1


def test_claimed_rows_and_claims_under_way_take_room() -> None:
    known = Known()
    place = known.of(parallelism=2)
    place.claiming()
    assert place.headroom(known.now) == 1
    known.call(place)
    assert place.headroom(known.now) == 0
    known.end(place)
    assert place.headroom(known.now) == 1
    place.claimed(known.now)
    assert place.headroom(known.now) == 2


def test_rows_that_are_not_due_leave_a_part_of_the_parallelism() -> None:
    place = Known().of(parallelism=4)
    assert [place.headroom(0.0, part) for part in (LATER, SOON)] == [2, 3]
    assert Known().of(parallelism=1).headroom(0.0, LATER) == 0
    assert Known().of(rate=1).headroom(1000.0, LATER) == 0


def test_each_row_is_held_to_its_own_limits_against_the_whole_key() -> None:
    known = Known()
    known.call(known.of(parallelism=3))
    known.call(known.of(parallelism=3))
    assert known.of(parallelism=2).headroom(known.now) == 0
    assert known.of(parallelism=5).headroom(known.now) == 3


def test_keys_and_clients_are_limited_apart() -> None:
    known = Known()
    known.call(known.of("a", parallelism=1))
    assert known.of("b", parallelism=1).headroom(known.now) == 1
    other = known.flows.place(ClientId("other"), Flow("a", None, 1), NO_RULES)
    assert other is not None
    assert other.headroom(known.now) == 1


@pytest.mark.parametrize("rate", [0.001, 0.5, 1.0, 3.0])
def test_a_rate_starts_a_call_at_once_and_the_next_after_its_interval(rate: float) -> None:
    known = Known()
    place = known.of(rate=rate)
    assert place.delay(known.now) == 0
    known.call(place)
    assert place.delay(known.now) == pytest.approx(1 / rate)
    known.now += 1 / rate
    assert place.delay(known.now) == pytest.approx(0, abs=1e-6)


def test_rows_are_claimed_only_shortly_before_their_rate_lets_them_start() -> None:
    known = Known()
    place = known.of(rate=0.1)
    known.call(place)
    assert place.headroom(known.now) <= 0
    known.now += 10 - CLAIMED_BEFORE_SECONDS - 0.01
    assert place.headroom(known.now) <= 0
    known.now += 0.02
    assert place.headroom(known.now) == 1
    known.claim(place)
    assert place.headroom(known.now) <= 0


@given(st.floats(0.01, 500), st.lists(st.floats(0, 3), max_size=60))
def test_starts_within_a_second_never_exceed_rate_and_savings(rate: float, waits: list[float]) -> None:
    known = Known()
    place, starts = known.of(rate=rate), list[float]()
    for wait in waits:
        known.now += wait / rate
        if place.delay(known.now) == 0:
            starts.append(known.now)
            known.call(place)
            known.end(place)
            place = known.of(rate=rate)
    for first, start in enumerate(starts):
        within = sum(start <= other < start + 1 for other in starts[first:])
        assert within <= rate + max(rate * 0.1, 1) + 1e-3


def test_after_a_take_over_the_first_call_waits_for_one_interval() -> None:
    known = Known()
    place = known.of(rate=0.1, granted_at=known.now - 4)
    assert place.delay(known.now) == pytest.approx(6)
    assert known.of("b", parallelism=1, granted_at=known.now).headroom(known.now) == 1
    known.now += 6
    assert place.delay(known.now) == pytest.approx(0, abs=1e-6)


# Waiting.


def test_waiting_jobs_start_one_by_one_in_order() -> None:
    known = Known()
    place = known.of(rate=2)
    known.call(place)
    for job in ("first", "second"):
        known.claim(place)
        place.park(job, first=False)
    assert known.flows.next_tick() == known.now + 0.5
    assert known.tick() == []
    known.now += 0.5
    assert known.tick() == ["first"]
    place.started(known.now)
    known.now += 0.4
    assert known.tick() == []
    assert known.flows.held_back() == 1
    known.now += 0.1
    assert known.tick() == ["second"]
    assert known.flows.held_back() == 0


def test_the_next_waiting_job_is_called_where_the_one_called_is_given_back() -> None:
    known = Known()
    place = known.of(rate=2)
    known.call(place)
    for job in ("first", "second"):
        known.claim(place)
        place.park(job, first=False)
    known.now += 0.5
    assert known.tick() == ["first"]
    place.released(known.now)
    assert known.tick() == ["second"]


def test_waiting_jobs_of_one_owner_are_taken_back() -> None:
    known = Known()
    place = known.of(rate=0.1)
    known.call(place)
    owners = {"mine 1": 1, "yours": 2, "mine 2": 1}
    for job in owners:
        place.park(job, first=False)
    assert known.flows.withdraw(1, lambda job: owners[job]) == ["mine 1", "mine 2"]
    assert list(place.state.waiting) == ["yours"]


# Telling of room.


def test_refused_rows_are_told_of_room_once_a_call_has_ended() -> None:
    known = Known()
    place = known.of(parallelism=1)
    known.call(place)
    place.refuse(known.now)
    assert known.tick() == []
    assert known.freed == []
    known.end(place)
    known.now += 0.02
    known.tick()
    assert known.freed == [SHOP]


def test_refused_rows_are_told_before_their_rate_lets_them_start() -> None:
    known = Known()
    place = known.of(rate=0.5)
    known.call(place)
    place.refuse(known.now)
    known.now += 2 - CLAIMED_BEFORE_SECONDS - 0.03
    known.tick()
    assert known.freed == []
    known.now += 0.06
    known.tick()
    assert known.freed == [SHOP]
    assert place.headroom(known.now) == 1


def test_rows_that_only_are_not_due_are_not_refused() -> None:
    known = Known()
    place = known.of(parallelism=1)
    place.refuse(known.now)
    assert known.flows.next_tick() is None


def test_rows_of_a_key_that_stays_full_are_judged_again_after_a_while() -> None:
    known = Known()
    place = known.of(parallelism=1)
    known.call(place)
    place.refuse(known.now)
    known.now += LOOKED_AT_SECONDS + 0.1
    known.tick()
    assert known.freed == [SHOP]


def test_room_of_many_keys_is_told_at_once() -> None:
    known = Known()
    places = [known.of(f"key-{number}", parallelism=1) for number in range(100)]
    for place in places:
        known.call(place)
        place.refuse(known.now)
    for place in places:
        known.end(place)
    known.now += 0.02
    known.tick()
    assert known.freed == [SHOP]


# When the turn of a row comes.


def test_a_row_waits_until_its_turn_in_the_rate() -> None:
    known = Known()
    place = known.of(rate=2)
    known.call(place)
    assert place.room_in(known.now, before=0) == pytest.approx(0.5)
    assert place.room_in(known.now, before=4) == pytest.approx(2.5)


def test_a_call_that_hangs_is_expected_to_hang_as_long_again() -> None:
    known = Known()
    place = known.of(parallelism=2)
    known.call(place)
    known.call(place)
    assert place.room_in(known.now, before=0) == 0
    known.now += 30
    assert place.room_in(known.now, before=0) == 30
    assert place.room_in(known.now, before=2) == 90


def test_deferred_rows_come_back_one_after_the_other() -> None:
    known = Known()
    place = known.of(rate=0.5)
    known.call(place)

    def defer() -> float:
        return place.defer(known.now, before=0, least=1.0, most=7.0)

    assert [defer() for _ in range(5)] == [2.0, 4.0, 6.0, 7.0, 7.0]


def test_a_deferred_row_comes_back_no_sooner_than_asked() -> None:
    known = Known()
    place = known.of(rate=100)
    known.call(place)
    assert place.defer(known.now, before=0, least=1.0, most=600.0) == 1.0


# State.


def lasting(known: Known, ends: Callable[[FlowPlace[str]], None]) -> int:
    place = known.of(rate=1, parallelism=1)
    known.call(place)
    ends(place)
    return known.flows.count()


def test_a_key_without_calls_and_debt_has_no_state() -> None:
    known = Known()
    place = known.of(parallelism=1)
    known.call(place)
    known.end(place)
    assert known.flows.count() == 0


def test_a_key_keeps_its_state_while_its_rate_is_used_up() -> None:
    known = Known()
    assert lasting(known, known.end) == 1
    assert known.of(rate=1, parallelism=1).delay(known.now) == 1


def test_keys_without_state_are_forgotten_as_others_come() -> None:
    known = Known()
    for number in range(10_000):
        place = known.of(f"key-{number}", rate=100)
        known.call(place)
        known.end(place)
        known.now += 0.001
    assert known.flows.count() < 200


def test_rows_of_further_keys_have_to_wait_while_too_many_have_state() -> None:
    known = Known(most=100)
    places = []
    for number in range(100):
        places.append(known.of(f"key-{number}", parallelism=1))
        known.claim(places[-1])
    with pytest.raises(TooManyFlows):
        known.of("one more", parallelism=1)
    assert known.of("key-7", parallelism=1).headroom(known.now) == 0
    places[7].released(known.now)
    known.of("one more", parallelism=1)
    known.of("key-8", parallelism=1)
    assert known.flows.count() == 100


def test_the_keys_of_a_client_that_left_are_forgotten_together() -> None:
    known = Known()
    place = known.of(rate=1)
    known.call(place)
    assert not known.flows.forget(SHOP, now=known.now)
    known.end(place)
    known.now += 1
    assert known.flows.forget(SHOP, now=known.now)
    assert known.flows.forget(SHOP, now=known.now)
    assert known.flows.count() == 0
