"""From an attempt's result to the outcome of its row."""

from typing import Any

import msgspec
import pytest

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.outcome import conclude, heeded
from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.clients import RetrySettings
from scheduler_service.domain.ids import DAY_MS, due_of
from scheduler_service.domain.notices import NOTICE_MS
from scheduler_service.domain.options import NO_OPTIONS, CronChild, Redelivery, RetryOverride, ScheduleOptions
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.domain.verbs import VERBS, Asked
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client, result

ENDED = NOW + 200
BASE_MS = 5_000


def concluded(
    came_to: AttemptResult, *, of: Claim | None = None, options: ScheduleOptions = NO_OPTIONS, **settings: Any
) -> Outcome:
    """The outcome of an attempt that ended at ENDED, with the full jitter."""
    return conclude(
        of or claim(),
        came_to,
        options=options,
        settings=client(**settings).settings,
        epoch=EPOCH,
        incarnation=SENDER.incarnation,
        now=ENDED,
        jitter=lambda: 1.0,
    )


def test_a_delivery() -> None:
    found = concluded(result(204, started_at_ms=NOW + 3))
    assert (found.state, found.attempts, found.last_status, found.reason) == (State.DELIVERED, 1, 204, None)
    assert (found.first_attempt_at, found.finished_at, found.next_attempt_at) == (NOW + 3, ENDED, None)
    assert (found.fired_by, found.fired_epoch) == (SENDER.incarnation, EPOCH)


def test_a_failed_attempt_is_repeated() -> None:
    found = concluded(result(None, error="timeout"))
    assert (found.state, found.next_attempt_at, found.finished_at) == (State.RETRYING, ENDED + BASE_MS, None)
    assert (found.attempts, found.last_status, found.last_error) == (1, None, "timeout")


@pytest.mark.parametrize("marked", [False, True], ids=["found-in-flight", "put-off"])
def test_an_attempt_of_which_nothing_was_sent_leaves_an_earlier_one_in_doubt(marked: bool) -> None:
    doubtful, options = claim(redelivery=not marked), ScheduleOptions(in_doubt=marked)
    unsent = concluded(result(None, error="connect-refused", nothing_sent=True), of=doubtful, options=options)
    assert (unsent.state, unsent.reason, unsent.attempts) == (State.RETRYING, "in-doubt", 1)
    sent = concluded(result(503), of=doubtful, options=options)
    assert (sent.state, sent.reason) == (State.RETRYING, None)
    assert concluded(result(None, error="connect-refused", nothing_sent=True)).reason is None


def test_the_first_attempt_stays_the_first() -> None:
    found = concluded(result(500), of=claim(attempt_base=2, first_attempt_at=NOW - 30_000))
    assert (found.first_attempt_at, found.attempts) == (NOW - 30_000, 3)
    assert found.next_attempt_at == ENDED + 4 * BASE_MS


@pytest.mark.parametrize(
    ("came_to", "settings", "reason"),
    [
        (result(410), {}, "final-status"),
        (result(None, error="bad-url", final=True, nothing_sent=True), {}, "refused"),
        (result(500), {"retry": RetrySettings(max_attempts=1)}, "exhausted"),
        (result(500), {"in_doubt": "drop"}, "at-most-once"),
        (result(None, error="reset"), {"in_doubt": "drop"}, "in-doubt"),
    ],
)
def test_giving_up(came_to: AttemptResult, settings: dict[str, Any], reason: str) -> None:
    found = concluded(came_to, **settings)
    assert (found.state, found.reason, found.finished_at) == (State.FAILED, reason, ENDED)
    assert (found.next_attempt_at, found.last_status, found.last_error) == (None, came_to.status, came_to.error)


def test_what_was_surely_not_sent_is_repeated_even_at_most_once() -> None:
    found = concluded(result(None, error="connect-refused", nothing_sent=True), in_doubt="drop")
    assert found.state is State.RETRYING


def test_the_attempts_before_count() -> None:
    retry = RetrySettings(max_attempts=3)
    assert concluded(result(500), of=claim(attempt_base=1), retry=retry).state is State.RETRYING
    assert concluded(result(500), of=claim(attempt_base=2), retry=retry).reason == "exhausted"


def test_the_receiver_may_ask_for_more_time() -> None:
    assert concluded(result(503, retry_after_seconds=60.0)).next_attempt_at == ENDED + 60_000


def test_the_deadline_counts_from_the_due() -> None:
    """The last instant is still allowed. `due` takes precedence over a first attempt that is recorded as earlier."""
    early = claim(first_attempt_at=NOW - 60_000, attempt_base=1)
    needed = (ENDED - NOW + 2 * BASE_MS) / 1000
    assert concluded(result(500), of=early, retry=RetrySettings(deadline_seconds=needed)).state is State.RETRYING
    missed = concluded(result(500), of=early, retry=RetrySettings(deadline_seconds=needed - 0.001))
    assert (missed.state, missed.reason) == (State.FAILED, "deadline")


def test_an_outage_does_not_eat_the_retries() -> None:
    """The first attempt came an hour late: the deadline counts from it."""
    late = claim(due=NOW - 3_600_000)
    retry = RetrySettings(deadline_seconds=60)
    assert concluded(result(500), of=late, retry=retry).state is State.RETRYING
    known = claim(due=NOW - 3_600_000, first_attempt_at=NOW - 59_000, attempt_base=1)
    assert concluded(result(500), of=known, retry=retry).reason == "deadline"


def test_a_schedule_asks_for_itself() -> None:
    own = ScheduleOptions(retry=RetryOverride(max_attempts=1))
    assert concluded(result(500), options=own).reason == "exhausted"
    slow = ScheduleOptions(retry=RetryOverride(base_seconds=20.0))
    assert concluded(result(500), options=slow).next_attempt_at == ENDED + 20_000
    own_final = ScheduleOptions(retry=RetryOverride(final_statuses=(404,)))
    assert concluded(result(404), options=own_final).reason == "final-status"
    assert concluded(result(410), options=own_final).state is State.RETRYING


def test_a_redelivery_has_attempts_and_a_deadline_of_its_own() -> None:
    asked_for = ScheduleOptions(redelivery=Redelivery(at=NOW - 1_000, attempts=3))
    again = claim(due=NOW - 900_000, attempt_base=3, first_attempt_at=NOW - 900_000)
    policy = {"retry": RetrySettings(max_attempts=3, deadline_seconds=60)}
    assert concluded(result(500), of=again, **policy).reason == "exhausted"
    found = concluded(result(500), of=again, options=asked_for, **policy)
    assert (found.state, found.attempts, found.next_attempt_at) == (State.RETRYING, 4, ENDED + BASE_MS)
    last = concluded(result(500), of=claim(attempt_base=5), options=asked_for, **policy)
    assert (last.reason, last.attempts) == ("exhausted", 6)
    old = ScheduleOptions(redelivery=Redelivery(at=NOW - 60_000, attempts=3))
    assert concluded(result(500), of=again, options=old, **policy).reason == "deadline"


def asked_for(
    asked: Asked, status: int, *, of: Claim | None = None, ack: Ack | None = None, **settings: Any
) -> Outcome:
    """The outcome of an answer with a verb, to a client that allows all of them."""
    came_to, options = result(status, asked=asked), ScheduleOptions(cron=CronChild(revision=1, tzdata="2026a"), ack=ack)
    of, known = of or claim(), client(**({"receiver_verbs": VERBS} | settings)).settings
    verb = heeded(of, came_to, options=options, settings=known, now=ENDED)
    came_to = msgspec.structs.replace(came_to, heeded=verb)
    return concluded(came_to, of=of, options=options, **settings)


def test_a_receiver_that_does_not_want_it_again_gets_it_no_more() -> None:
    found = asked_for(Asked(not_again=True), 489)
    assert (found.state, found.reason, found.last_status) == (State.FAILED, "not-again", 489)
    assert (found.finished_at, found.next_attempt_at) == (ENDED, None)
    assert asked_for(Asked(not_again=True), 489, receiver_verbs=()).state is State.RETRYING


@pytest.mark.parametrize("status", [200, 503])
def test_a_snoozed_schedule_begins_again_at_that_instant(status: int) -> None:
    at = ENDED + 7_200_000
    found = asked_for(Asked(call_at=at), status, of=claim(attempt_base=3), retry=RetrySettings(max_attempts=1))
    assert (found.state, found.reason, found.next_attempt_at) == (State.RETRYING, "snoozed", at)
    assert (found.attempts, found.redelivered_at, found.redelivered_after) == (4, at, 4)
    assert (found.finished_at, found.last_error) == (None, None)


def test_a_call_that_is_taken_and_snoozed_awaits_no_word_and_avoids_the_instants_of_deadlines() -> None:
    of = claim(options='{"ack":{"within_seconds":60}}')
    second = (ENDED // 1000 + 7_200) * 1000
    found = asked_for(Asked(call_at=second + 950), 202, of=of, ack=Ack(within_seconds=60))
    assert (found.state, found.reason, found.next_attempt_at) == (State.RETRYING, "snoozed", second + 1_000)
    assert found.redelivered_at == found.next_attempt_at
    taken = asked_for(Asked(call_at=ENDED + 9_000), 202, of=of, ack=Ack(within_seconds=60), receiver_verbs=())
    assert (taken.state, taken.reason, taken.last_status) == (State.RETRYING, "awaiting", 202)


def test_a_snooze_that_is_not_obeyed_leaves_the_status() -> None:
    far = Asked(call_at=ENDED + 800 * DAY_MS)
    assert asked_for(far, 200).state is State.DELIVERED
    assert asked_for(far, 503).next_attempt_at == ENDED + BASE_MS
    assert asked_for(Asked(call_at=ENDED + 9_000), 200, in_doubt="drop").state is State.DELIVERED


def test_a_notice_is_not_snoozed_beyond_the_life_of_its_events() -> None:
    of, known = claim(), client(receiver_verbs=VERBS).settings
    latest = due_of(of.row.schedule_id) + NOTICE_MS
    for at, notice, why in ((latest, True, None), (latest + 1, True, "too-far"), (latest + 1, False, None)):
        came_to, options = result(200, asked=Asked(call_at=at)), ScheduleOptions(notice=notice)
        verb = heeded(of, came_to, options=options, settings=known, now=ENDED)
        assert verb is not None
        assert verb.ignored == why


@pytest.mark.parametrize(("status", "state"), [(200, State.DELIVERED), (503, State.FAILED)])
def test_an_answer_that_stops_the_cron_is_the_end_of_the_run(status: int, state: State) -> None:
    found = asked_for(Asked(stop_cron=True), status)
    assert (found.state, found.reason, found.finished_at, found.redelivered_at) == (state, "cron-stopped", ENDED, None)
