"""Which rows of a minute wait for their flow keys in memory, and which are deferred instead."""

import math

from poller_cluster.dispatch.outcome import FLOW_FULL
from poller_cluster.minute.admission import MinuteAdmission
from poller_cluster.minute.flow_admission import LONGEST_SECONDS
from poller_cluster.minute.rows import PendingRow, PendingRows
from poller_cluster.settings import MinuteSettings, ReceiverSettings
from scheduler_service.domain.flows import Flow, FlowLimits, FlowRules
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.retry_rows import IN_DOUBT
from scheduler_service.domain.schedules import Row, State
from tests.support.node_parts import GivenOrder, minute_context
from tests.unit.poller_cluster.builders import PARTITION, at, row
from tests.unit.poller_cluster.claimed import client
from tests.unit.poller_cluster.dispatch_bench import Bench

WINDOW = 300
ONE = FlowRules(default=FlowLimits(parallelism=1))


class Judged:
    """Rows of one minute, judged in turn. The clock of the flows stands still unless a test advances it."""

    def __init__(self, *, flows_per_client: int = 20_000, rules: FlowRules = ONE) -> None:
        self.bench = Bench(ReceiverSettings(flows_per_client=flows_per_client))
        shop = client(max_in_flight=10_000, flows=rules)
        self.bench.clients.known["shop"] = shop
        self.poller, settings = GivenOrder(), MinuteSettings(window_rows=WINDOW)
        self.rows = PendingRows()
        self.admission = MinuteAdmission(
            client_id=PARTITION.client_id,
            minute=PARTITION.minute,
            poller=self.poller,
            settings=settings,
            context=minute_context(settings, clients=[shop], dispatcher=self.bench.dispatcher),
        )
        self.picked: list[Row] = []

    def judge(self, rows: list[Row], seconds: float = 5, *, redelivery: bool = False) -> list[Row]:
        for each in rows:
            self.rows.add(each, redelivery=redelivery)
        return self.pick(seconds)

    def pick(self, seconds: float) -> list[Row]:
        """The rows that are claimed now. They take their room until `answered`."""
        self.rows.reconsider(self.admission, at(seconds))
        picked = self.rows.pick(horizon=at(60), limit=10_000, judge=self.admission, now=at(seconds))
        return [entry.row for entry in picked]

    def tell(self, seconds: float = 0.02) -> None:
        """Let time pass, and the flow keys tell of room."""
        self.bench.clock.advance(seconds)
        list(self.bench.dispatcher.flows.tick(self.bench.clock.monotonic()))

    def start(self, key: str, **limits: float) -> None:
        """The call of the row that was claimed starts."""
        flow = Flow(key, **limits)  # type: ignore[arg-type]
        place = self.bench.dispatcher.flows.place(PARTITION.client_id, flow, self.bench.clients.known["shop"].settings)
        assert place is not None
        place.state.outstanding += 1
        self.admission.answered()
        place.started(self.bench.clock.monotonic())

    def entry(self, row: Row) -> PendingRow:
        entry = self.rows.get(row.key)
        assert entry is not None
        return entry

    def deferred(self, rows: list[Row]) -> list[Row]:
        ended = [self.entry(each) for each in rows if self.entry(each).outcome is not None]
        for entry in ended:
            assert entry.outcome is not None
            assert (entry.outcome.state, entry.outcome.reason) == (State.RETRYING, FLOW_FULL)
        return [entry.row for entry in ended]

    @property
    def held(self) -> int:
        return sum(len(rows) for (kind, _), rows in self.rows.held.items() if kind == "flow")


def flowing(number: int, key: str, seconds: float = 5, **limits: float) -> Row:
    flow = Flow(key, **limits)  # type: ignore[arg-type]
    return row(seconds, number, options=encode_options(ScheduleOptions(flow=flow)))


def plain(number: int) -> Row:
    return row(5, number)


def test_as_many_rows_of_a_key_are_claimed_as_may_be_called_at_a_time() -> None:
    judged = Judged()
    rows = [flowing(number, f"key-{number % 2}") for number in range(6)]
    assert judged.judge(rows) == rows[:2]
    assert judged.pick(5.1) == []
    judged.admission.answered()
    judged.tell()
    assert len(judged.pick(5.1)) == 2


def test_rows_without_a_flow_key_and_of_other_keys_pass() -> None:
    judged = Judged()
    stuck = [flowing(number, "stuck") for number in range(1_000)]
    others = [flowing(1_000 + number, f"key-{number}") for number in range(500)]
    free = [plain(2_000 + number) for number in range(500)]
    assert judged.judge(stuck + others + free) == [stuck[0], *others, *free]


def test_a_stuck_key_leaves_most_of_the_window_free() -> None:
    judged = Judged()
    stuck = [flowing(number, "stuck") for number in range(1_000)]
    judged.judge(stuck)
    assert judged.held == WINDOW // 3 // 2 + 1 - 1
    assert len(judged.deferred(stuck)) == 999 - judged.held


def test_operators_see_keys_that_are_held_back_and_why_rows_were_deferred() -> None:
    judged = Judged(flows_per_client=3)
    flows = judged.bench.dispatcher.flows
    judged.judge([flowing(1, "quick")])
    assert (flows.held_back(), flows.deferred) == (0, {"limits": 0, "keys": 0})
    stuck = [flowing(10 + number, f"stuck-{number % 2}") for number in range(1_000)]
    judged.judge(stuck)
    assert (flows.held_back(), flows.deferred) == (2, {"limits": 998 - judged.held, "keys": 0})
    limits = flows.deferred["limits"]
    judged.judge([flowing(2_000, "one-too-many")])
    assert flows.deferred == {"limits": limits, "keys": 1}


def test_all_keys_together_hold_a_third_of_the_window() -> None:
    judged = Judged()
    judged.judge([flowing(number, f"key-{number // 2}") for number in range(2_000)])
    assert judged.held == WINDOW // 3


def test_deferred_rows_come_back_as_far_apart_as_the_rate_says() -> None:
    judged = Judged()
    first = flowing(1, "slow", rate=0.05)
    assert judged.judge([first]) == [first]
    judged.start("slow", rate=0.05)
    again = [flowing(10 + number, "slow", seconds=6, rate=0.05) for number in range(3)]
    judged.judge(again, 6)
    assert judged.deferred(again) == again
    instants = [outcome.next_attempt_at for outcome in (judged.entry(each).outcome for each in again) if outcome]
    assert instants == [at(26), at(46), at(66)]


def test_no_deferred_row_is_away_for_long() -> None:
    judged = Judged()
    rows = [flowing(number, "slow", rate=0.001) for number in range(100)]
    judged.judge(rows)
    outcomes = [judged.entry(each).outcome for each in judged.deferred(rows)]
    longest = max(outcome.next_attempt_at or math.inf for outcome in outcomes if outcome is not None)
    assert at(5 + LONGEST_SECONDS / 2) < longest <= at(5 + LONGEST_SECONDS)


def test_held_rows_are_deferred_once_the_calls_before_them_hang() -> None:
    judged = Judged()
    first, second = flowing(1, "stuck"), flowing(2, "stuck")
    judged.judge([first, second])
    judged.start("stuck")
    assert judged.deferred([second]) == []
    judged.tell(11)
    assert judged.pick(16) == []
    assert judged.deferred([second]) == [second]


def test_a_row_that_is_not_due_leaves_the_room_to_one_that_is() -> None:
    judged = Judged()
    later, now = flowing(1, "one", seconds=9), flowing(2, "one", seconds=5)
    assert judged.judge([later]) == []
    assert judged.judge([now]) == [now]
    judged.admission.answered()
    judged.tell()
    assert at(9) in judged.rows.claim_instants(at(5), lead_ms=1_000)
    assert judged.pick(8.9) == []
    assert judged.pick(9) == [later]


def test_rows_that_only_are_not_due_are_never_deferred() -> None:
    judged = Judged()
    rows = [flowing(number, f"key-{number}", seconds=9) for number in range(500)]
    assert judged.judge(rows) == []
    assert judged.deferred(rows) == []
    assert judged.pick(9) == rows


def test_no_row_passes_one_of_its_key_that_waits() -> None:
    judged = Judged()
    rows = [flowing(number, "one") for number in range(2)]
    assert judged.judge(rows) == rows[:1]
    judged.admission.answered()
    late = flowing(2, "one")
    assert judged.judge([late]) == []
    judged.tell()
    assert judged.pick(5.1) == rows[1:]
    assert judged.deferred([late]) == []


def test_rows_of_further_keys_are_deferred_while_too_many_have_state() -> None:
    judged = Judged(flows_per_client=10)
    rows = [flowing(number, f"key-{number}") for number in range(12)]
    assert judged.judge(rows) == rows[:10]
    assert judged.deferred(rows) == rows[10:]
    come_back = [outcome.next_attempt_at for outcome in (judged.entry(each).outcome for each in rows[10:]) if outcome]
    assert all(at(6) <= instant <= at(7) for instant in come_back if instant is not None)


def test_a_deferred_row_in_doubt_stays_in_doubt() -> None:
    judged = Judged()
    rows = [flowing(number, "slow", rate=0.001) for number in range(2)]
    judged.judge(rows, redelivery=True)
    outcome = judged.entry(rows[1]).outcome
    assert outcome is not None
    assert outcome.reason == IN_DOUBT


def test_without_limits_a_flow_key_holds_nothing_back() -> None:
    judged = Judged(rules=FlowRules())
    rows = [flowing(number, "free") for number in range(100)]
    assert judged.judge(rows) == rows
    assert judged.bench.dispatcher.flows.count() == 0


def test_a_new_owner_waits_for_one_interval_of_the_rate() -> None:
    judged = Judged()
    judged.admission._flows._granted_at = judged.bench.clock.monotonic()
    row = flowing(1, "paced", rate=0.2)
    assert judged.judge([row]) == []
    assert judged.held == 1
    judged.tell(5)
    assert judged.pick(10) == [row]
