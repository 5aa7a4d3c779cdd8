"""Which rows of a minute with a long time-out are claimed, wait in memory, or are deferred."""

from dataclasses import replace

from poller_cluster.dispatch.outcome import LONG_CALLS_FULL
from poller_cluster.minute.limits import RowWindow
from poller_cluster.minute.long_admission import FOR_ROOM, LEAST_APART_SECONDS, LONGEST_SECONDS, LongAdmission
from poller_cluster.minute.rows import Again, Hold, PendingRow, Verdict
from poller_cluster.settings import MinuteSettings, ReceiverSettings
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedules import Outcome, State
from tests.unit.poller_cluster.builders import PARTITION, at, row
from tests.unit.poller_cluster.claimed import client
from tests.unit.poller_cluster.dispatch_bench import Bench

LONG = encode_options(ScheduleOptions(timeout_seconds=600.0))
PLACES = 10
SETTINGS = MinuteSettings()


class Judged:
    """A client with ten places for long calls, and a window of `window` rows a minute."""

    def __init__(self, window: int = 800) -> None:
        settings = MinuteSettings(window_rows=window)
        self.bench = Bench(ReceiverSettings())
        self.client = replace(client(max_in_flight=2 * PLACES), longest_attempt_seconds=600.0)
        self.bench.clients.known["shop"] = self.client
        self.admission = LongAdmission(
            client_id=PARTITION.client_id,
            dispatcher=self.bench.dispatcher,
            settings=settings,
            row_window=RowWindow(settings),
        )
        self.admission.begin({}, self.client)
        self.number = 0

    @property
    def taken(self) -> int:
        return self.bench.dispatcher.long_calls.taken

    def entry(self, seconds: float = 5) -> PendingRow:
        self.number += 1
        return PendingRow(row(seconds, self.number, options=LONG), redelivery=False)

    def judge(self, due: float = 5, *, now: float = 5) -> Verdict:
        """A row that is claimed takes its room until `answered`."""
        verdict = self.admission.judge(self.entry(due), self.client, at(now))
        if verdict is None:
            self.admission.claiming()
        return verdict

    def many(self, rows: int, due: float = 5, *, now: float = 5) -> list[Verdict]:
        return [self.judge(due, now=now) for _ in range(rows)]


def test_due_rows_are_claimed_while_there_is_room_and_then_wait_in_memory() -> None:
    judged = Judged()
    verdicts = judged.many(2 * PLACES)
    assert verdicts[:PLACES] == [None] * PLACES
    assert all(isinstance(one, Hold) and one.queue == FOR_ROOM for one in verdicts[PLACES:])
    assert judged.taken == PLACES


def test_rows_beyond_as_many_as_may_be_called_are_deferred_with_no_attempt_counted() -> None:
    judged = Judged()
    judged.many(2 * PLACES)
    for outcome in judged.many(50):
        assert isinstance(outcome, Outcome)
        assert (outcome.state, outcome.reason, outcome.attempts) == (State.RETRYING, LONG_CALLS_FULL, 0)
        assert outcome.next_attempt_at is not None
        after = (outcome.next_attempt_at - at(5)) / 1000
        assert LEAST_APART_SECONDS <= after <= LONGEST_SECONDS + 0.1


def test_they_take_an_eighth_of_a_small_window_at_most() -> None:
    judged = Judged(window=50)
    verdicts = judged.many(2 * PLACES)[PLACES:]
    held = [isinstance(one, Hold) for one in verdicts]
    assert held == [True] * 6 + [False] * 4


def test_rows_that_are_held_already_count() -> None:
    judged = Judged()
    judged.many(PLACES)
    judged.admission.begin({FOR_ROOM: range(PLACES - 1)}, judged.client)
    assert [isinstance(one, Hold) for one in judged.many(2)] == [True, False]


def test_a_row_that_is_not_due_leaves_half_of_the_room_and_is_never_deferred() -> None:
    judged = Judged()
    ahead = 5 + 2 * SETTINGS.claim_lead_ms / 1000
    verdicts = judged.many(3 * PLACES, ahead)
    assert verdicts[: PLACES // 2] == [None] * (PLACES // 2)
    assert all(isinstance(one, Hold) for one in verdicts[PLACES // 2 :])
    assert judged.many(PLACES // 2) == [None] * (PLACES // 2)


def test_the_answer_to_a_claim_frees_what_it_reserved_once() -> None:
    judged = Judged()
    judged.many(3)
    for _ in range(2):
        judged.admission.answered()
        assert judged.taken == 0


def test_held_rows_are_judged_again_when_there_is_room_for_them() -> None:
    judged = Judged()
    judged.many(PLACES - 2)
    due, ahead = judged.entry(5), judged.entry(5 + 2 * SETTINGS.claim_lead_ms / 1000)
    assert judged.admission.again(due, judged.client, at(5)) == Again(2, at(5))
    assert judged.admission.again(ahead, judged.client, at(5)).rows < 0


def test_room_that_comes_after_a_look_without_any_is_told_of() -> None:
    judged = Judged()
    judged.many(PLACES)
    told: list[object] = []
    judged.bench.dispatcher.long_calls._on_free = told.append
    assert judged.admission.again(judged.entry(), judged.client, at(5)).rows == 0
    judged.admission.answered()
    assert told == [PARTITION.client_id]


def test_a_client_whose_time_outs_are_short_has_no_long_calls() -> None:
    judged = Judged()
    assert judged.admission.possible
    judged.admission.begin({}, replace(judged.client, longest_attempt_seconds=60.0))
    assert not judged.admission.possible
    judged.admission.begin({}, None)
    assert not judged.admission.possible
