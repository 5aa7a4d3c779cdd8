"""Slices of a reconciliation: each row of the window once, in bounded steps, whatever the pollers and minutes hold."""

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import (
    MINUTE_MS,
    ClientId,
    PollerId,
    ScheduleId,
    UnixMillis,
    compose_schedule_id,
    key_of,
    minute_of,
    partition_of,
)
from scheduler_service.domain.reconciliations import (
    Action,
    Progress,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationState,
    Seen,
    Spacing,
    new_reconciliation_id,
)
from scheduler_service.domain.schedule_filters import EVERY, ScheduleFilter
from scheduler_service.domain.schedules import Definition, ExternalUpdate, Kind, Outcome, RowWrite, State
from scheduler_service.runtime.concurrently import Turn
from scheduler_service.usecases import reconcile
from scheduler_service.usecases.cancel_schedules import (
    BeingRetried,
    Cancelled,
    CancelSchedules,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.reconcile import NotOurs, Reconcile
from scheduler_service.usecases.redeliver import (
    EndedOtherwise,
    RedeliveredBefore,
    Redelivering,
    RedeliverSchedule,
    StillOpen,
    Terms,
)
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.support.api import NOW, ManualClock, RecordedHints, SeededRandomness
from tests.support.held_turns import HeldTurns
from tests.support.virtual_loop import run_virtual

SHOP = ClientId("shop")
START = NOW - 7_200_000


class Bench:
    """Slices over a store in memory."""

    def __init__(self, *, quota: int = 3) -> None:
        self.memory = InMemoryConnection()
        self.storage = Storage.over(self.memory)
        self.clock, self.randomness = ManualClock(), SeededRandomness()
        self.faults: list[str] = []
        self.client = Client(
            client_id=SHOP,
            poller_quota=quota,
            poller_ceiling=quota,
            state=ClientState.ACTIVE,
            settings=ClientSettings(),
            revision=1,
            created_at=UnixMillis(NOW),
        )
        writer = ScheduleWriter(
            schedules=self.storage.schedules,
            keys=self.storage.schedule_keys,
            leases=self.storage.leases,
            clock=self.clock,
            randomness=self.randomness,
            hints=RecordedHints(),
        )
        self.redeliver = RedeliverSchedule(
            schedules=self.storage.schedules,
            attempts=self.storage.attempts,
            writer=writer,
            clock=self.clock,
        )
        self.once = Reconcile(
            store=self.storage.reconciliations,
            schedules=self.storage.schedules,
            redeliver=self.redeliver,
            cancel=CancelSchedules(
                schedules=self.storage.schedules, writer=writer, clock=self.clock, has_feed=lambda client_id: False
            ),
            clock=self.clock,
            on_fault=lambda name, error: self.faults.append(name),
        )

    async def add(
        self,
        due: int,
        poller: int,
        tail: int,
        *,
        state: State = State.FAILED,
        kind: Kind = Kind.CALL,
        label: str | None = None,
        url: str = "https://a.example/",
        body: bytes = b"",
    ) -> None:
        schedule_id = compose_schedule_id(due=due, poller_id=poller, tail=tail)
        definition = Definition(
            client_id=SHOP,
            poller_id=PollerId(poller),
            due=UnixMillis(due),
            schedule_id=schedule_id,
            kind=kind,
            method="POST",
            url=url,
            headers="[]",
            body=body,
            options="{}",
            label=label,
            created_at=UnixMillis(due - 1_000),
        )
        await self.storage.schedules.insert(definition)
        if state is State.SCHEDULED:
            return
        outcome = Outcome(state=state, attempts=1, finished_at=UnixMillis(due + 5))
        write = RowWrite(key=definition.key, outcome=outcome, expect_state=State.SCHEDULED)
        edits = self.randomness.uuid4()
        await self.storage.schedules.update(
            ExternalUpdate(
                partition=definition.partition, edits=edits, version=None, version_known=True, writes=(write,)
            )
        )

    async def asked(
        self, action: Action, *states: State, end: int, start: int = START, filter_: ScheduleFilter = EVERY
    ) -> Reconciliation:
        asked = Reconciliation(
            client_id=SHOP,
            reconciliation_id=new_reconciliation_id(at=self.clock.now, randomness=self.randomness),
            action=action,
            start=UnixMillis(start),
            end=UnixMillis(end),
            states=states,
            filter=filter_,
            created_at=UnixMillis(self.clock.now),
            created_by="shop",
            progress=Progress(minute=minute_of(start)),
            updated_at=UnixMillis(self.clock.now),
        )
        await self.storage.reconciliations.insert(asked)
        self.clock.advance(1)
        assert self.once.may_begin(asked)
        return asked

    async def handled(self, asked: Reconciliation) -> Sequence[ReconciledSchedule]:
        of = (SHOP, asked.reconciliation_id)
        return await self.storage.reconciliations.read_reconciled(*of, minute_of(asked.start))

    def rows(self) -> list[dict[str, Any]]:
        return self.memory.rows("schedules")

    async def slices(self, asked: Reconciliation) -> list[Reconciliation]:
        """The stored reconciliation after each slice."""
        stood = [asked]
        while stood[-1].running:
            done = await self.once(self.client, stood[-1], share=0.5, ours=lambda: True)
            assert done.reconciliation.progress != stood[-1].progress
            stood.append(done.reconciliation)
        return stood


def row(state: State) -> Any:
    return SimpleNamespace(state=None if state is State.SCHEDULED else state.value, shown_state=state)


Rows = list[tuple[int, int, State, Kind]]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 30) | st.sampled_from([59_999, 60_000, 60_001, 3_600_000, 3_600_007, 6_000_000]),
        st.integers(0, 4),
        st.sampled_from([State.FAILED, State.SKIPPED, State.DELIVERED, State.SCHEDULED]),
        st.sampled_from([Kind.CALL, Kind.CALL, Kind.CALL, Kind.RETRY_ROW]),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, begin=st.sampled_from([0, 1, 7]), most=st.integers(2, 9), poller_rows=st.integers(1, 3))
def test_every_row_of_the_window_is_counted_once(rows: Rows, begin: int, most: int, poller_rows: int) -> None:
    end = START + 3_600_007

    async def run() -> None:
        bench = Bench(quota=5)
        for tail, (offset, poller, state, kind) in enumerate(rows):
            await bench.add(START + offset, poller, tail, state=state, kind=kind)
        asked = await bench.asked(Action.REPORT, State.FAILED, State.DELIVERED, start=START + begin, end=end)
        stood = await bench.slices(asked)
        wanted = Counter(
            state
            for offset, _, state, kind in rows
            if begin <= offset < 3_600_007 and kind is Kind.CALL and state in asked.states
        )
        assert stood[-1].progress.seen == wanted
        assert stood[-1].progress.outcomes == ({Seen.COUNTED: wanted.total()} if wanted else {})
        assert (stood[-1].state, stood[-1].minutes_done) == (ReconciliationState.FINISHED, asked.minutes_total)
        assert [one.version for one in stood] == [None, *range(1, len(stood))]
        done = [one.minutes_done for one in stood]
        assert done == sorted(done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconcile, "SLICE_ROWS", most)
        patch.setattr(reconcile, "MOST_ROWS", most)
        patch.setattr(reconcile, "POLLER_ROWS", poller_rows)
        patch.setattr(reconcile, "SLICE_PARTITIONS", 2)
        patch.setattr(reconcile, "SLICE_HOURS", 1)
        run_virtual(run)


async def test_an_empty_month_takes_a_slice_a_day() -> None:
    bench = Bench()
    stood = await bench.slices(await bench.asked(Action.REPORT, State.FAILED, end=START + 31 * 86_400_000))
    assert len(stood) == 33
    assert stood[-1].progress.outcomes == {}


async def test_pollers_get_instants_side_by_side_and_the_next_slice_goes_on_behind_them() -> None:
    bench = Bench()
    for number in range(30):
        await bench.add(START + number, number % 2, number)
    later = START + 2 * MINUTE_MS
    await bench.add(later, 0, 99)
    asked = await bench.asked(Action.REDELIVER, State.FAILED, end=START + MINUTE_MS)
    (_, done) = await bench.slices(asked)
    assert done.progress.outcomes == {Seen.REDELIVERED: 30}
    rows = [row for row in bench.rows() if row["redelivered_at"]]
    began = bench.clock.now + 1
    for poller in (0, 1):
        instants = sorted(row["redelivered_at"] for row in rows if row["poller_id"] == poller)
        assert instants == [began + 120 * number for number in range(15)]
    assert done.progress.lead == bench.clock.now + 15 * 120


async def test_a_node_that_lost_a_reconciliation_writes_nothing() -> None:
    bench = Bench()
    for number in range(3):
        await bench.add(START + number, 0, number)
    asked = await bench.asked(Action.REDELIVER, State.FAILED, end=START + MINUTE_MS)
    with pytest.raises(NotOurs):
        await bench.once(bench.client, asked, share=0.5, ours=lambda: False)
    assert await bench.storage.reconciliations.read(SHOP, asked.reconciliation_id) == asked
    assert not any(row["redelivered_at"] for row in bench.rows())


@pytest.mark.parametrize("error", [ContentTooLarge("x"), StoreUnavailable("x")])
async def test_a_row_that_cannot_be_handled_is_counted_and_storage_is_waited_for(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    for number in range(3):
        await bench.add(START + number, 0, number)
    asked = await bench.asked(Action.REDELIVER, State.FAILED, end=START + MINUTE_MS)
    redeliver, hit = RedeliverSchedule.__call__, 0

    async def fails_once(self: RedeliverSchedule, *arguments: object, **named: object) -> object:
        nonlocal hit
        hit += 1
        if hit == 2:
            raise error
        return await redeliver(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(RedeliverSchedule, "__call__", fails_once)
    if isinstance(error, StoreUnavailable):
        with pytest.raises(StoreUnavailable):
            await bench.once(bench.client, asked, share=0.5, ours=lambda: True)
        assert (await bench.slices(asked))[-1].progress.outcomes == {Seen.REDELIVERED: 3}
        return
    assert (await bench.slices(asked))[-1].progress.outcomes == {Seen.REDELIVERED: 2, Seen.REFUSED: 1}
    assert [one.reason for one in await bench.handled(asked) if one.outcome is Seen.REFUSED] == ["x"]
    assert len(bench.faults) == 1


async def test_what_was_done_to_each_is_kept_with_why_it_was_not() -> None:
    bench = Bench()
    for tail in range(4):
        await bench.add(START + tail, 0, tail)
    asked = await bench.asked(Action.REDELIVER, State.FAILED, end=START + MINUTE_MS)
    ids = [compose_schedule_id(due=START + tail, poller_id=0, tail=tail) for tail in range(4)]
    results: list[Any] = [None, StillOpen(row(State.RETRYING)), EndedOtherwise(row(State.DELIVERED)), NoSuchSchedule()]
    redeliver = bench.redeliver

    async def scripted(client: Client, schedule_id: ScheduleId, *, terms: Terms) -> object:
        return results[ids.index(schedule_id)] or await redeliver(client, schedule_id, terms=terms)

    bench.once._redeliver = scripted  # type: ignore[assignment]
    await bench.slices(asked)
    assert await bench.handled(asked) == [
        ReconciledSchedule(*key_of(ids[0]), Seen.REDELIVERED),
        ReconciledSchedule(*key_of(ids[1]), Seen.OPEN, "retrying"),
        ReconciledSchedule(*key_of(ids[2]), Seen.CHANGED, "delivered"),
        ReconciledSchedule(*key_of(ids[3]), Seen.GONE),
    ]
    report = await bench.asked(Action.REPORT, State.FAILED, end=START + MINUTE_MS)
    assert (await bench.slices(report))[-1].progress.outcomes == {Seen.COUNTED: 3}
    assert await bench.handled(report) == []


async def test_why_schedules_were_not_cancelled_is_kept() -> None:
    bench, due = Bench(), NOW + 60_000
    for tail in range(5):
        await bench.add(due + tail, 0, tail, state=State.SCHEDULED)
    asked = await bench.asked(Action.CANCEL, State.SCHEDULED, start=due, end=due + MINUTE_MS)
    ids = [compose_schedule_id(due=due + tail, poller_id=0, tail=tail) for tail in range(5)]
    results: list[Any] = [
        InFlight(row(State.SCHEDULED)),
        InDoubt(row(State.RETRYING)),
        WasRescheduled(row(State.CANCELLED)),
        BeingRetried(row(State.RETRYING)),
        Cancelled(row(State.CANCELLED)),
    ]

    async def scripted(*given: object, **named: object) -> object:
        return dict(zip(ids, results, strict=True))

    bench.once._cancel.many = scripted  # type: ignore[method-assign, assignment]
    await bench.slices(asked)
    assert [(one.outcome, one.reason) for one in await bench.handled(asked)] == [
        (Seen.IN_FLIGHT, None),
        (Seen.IN_FLIGHT, "in-doubt"),
        (Seen.CHANGED, "rescheduled"),
        (Seen.CHANGED, "retrying"),
        (Seen.CANCELLED, None),
    ]


async def test_a_bulk_redelivery_skips_rows_that_have_changed() -> None:
    bench = Bench()
    ids = [compose_schedule_id(due=START, poller_id=0, tail=tail) for tail in range(3)]
    for tail, state in enumerate((State.FAILED, State.DELIVERED, State.FAILED)):
        await bench.add(START, 0, tail, state=state)
    terms = Terms(states=(State.FAILED,), since=UnixMillis(NOW), at=UnixMillis(NOW + 500))
    assert isinstance(await bench.redeliver(bench.client, ids[0], terms=terms), Redelivering)
    assert isinstance(await bench.redeliver(bench.client, ids[0], terms=terms), RedeliveredBefore)
    assert isinstance(await bench.redeliver(bench.client, ids[1], terms=terms), EndedOtherwise)
    assert isinstance(await bench.redeliver(bench.client, ids[2]), Redelivering)
    instants = sorted(row["redelivered_at"] for row in bench.rows() if row["redelivered_at"])
    assert instants == [NOW + 1, NOW + 501]


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("by_content", [False, True])
async def test_every_request_is_made_within_a_turn_of_its_own(
    action: Action, stopped: bool, by_content: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, turns = Bench(), HeldTurns()
    due = NOW + 60_000 if action is Action.CANCEL else START
    state = State.SCHEDULED if action is Action.CANCEL else State.FAILED
    for number in range(12):
        await bench.add(due + number, number % 3, number, state=state)
    filter_ = ScheduleFilter(host="a.example") if by_content else EVERY
    asked = await bench.asked(action, state, start=due, end=due + MINUTE_MS, filter_=filter_)
    turns.require(monkeypatch)
    if stopped:
        await bench.once.close(bench.client, asked, turn=turns)
    else:
        await bench.once(bench.client, asked, share=0.5, ours=lambda: True, turn=turns)
    assert turns.taken >= (5 if stopped or action is Action.REPORT else 5 + (12 if action is Action.REDELIVER else 3))


async def test_a_clock_behind_the_request_begins_nothing() -> None:
    bench = Bench()
    asked = await bench.asked(Action.REPORT, State.FAILED, end=START + 1)
    bench.clock.now = asked.created_at
    assert not bench.once.may_begin(asked)
    bench.clock.now += 1
    assert bench.once.may_begin(asked)
    bench.clock.trusted = False
    assert not bench.once.may_begin(asked)


@pytest.mark.parametrize(
    ("states", "left"), [((State.SCHEDULED,), "retrying"), ((State.SCHEDULED, State.RETRYING), "cancelled")]
)
async def test_what_is_being_retried_is_cancelled_only_if_that_was_asked_for(
    states: tuple[State, ...], left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two is attempted between its read and its cancel."""
    bench, due = Bench(), NOW + 60_000
    for tail in (1, 2):
        await bench.add(due, 0, tail, state=State.SCHEDULED)
    asked = await bench.asked(Action.CANCEL, *states, start=NOW, end=NOW + 120_000)
    cancel = CancelSchedules.many

    async def later(
        self: CancelSchedules, client_id: ClientId, ids: Sequence[ScheduleId], *, retrying: bool, turn: Turn
    ) -> object:
        outcome = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(due + 90_000))
        write = RowWrite(key=key_of(ids[0]), outcome=outcome, expect_state=State.SCHEDULED)
        where, edits = partition_of(client_id, ids[0]), bench.randomness.uuid4()
        await bench.storage.schedules.update(
            ExternalUpdate(partition=where, edits=edits, version=None, version_known=True, writes=(write,))
        )
        return await cancel(self, client_id, ids, retrying=retrying, turn=turn)

    monkeypatch.setattr(CancelSchedules, "many", later)
    outcomes = (await bench.slices(asked))[-1].progress.outcomes
    ended = [row["state"] for row in bench.rows() if row["kind"] == "call"]
    assert sorted(ended) == sorted(["cancelled", left])
    assert outcomes == Counter({Seen.CANCELLED: ended.count("cancelled")}) + Counter({Seen.CHANGED: left == "retrying"})


async def test_what_is_overdue_is_skipped_with_a_reason_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the others one was attempted and waits for a retry, and one was skipped by a late policy meanwhile."""
    bench = Bench()
    for tail in range(4):
        await bench.add(START, tail % 2, tail, state=State.SCHEDULED)
    await bench.add(START + MINUTE_MS, 0, 9, state=State.SCHEDULED)
    window = {"start": START, "end": START + MINUTE_MS}
    report = (await bench.slices(await bench.asked(Action.REPORT, State.SCHEDULED, **window)))[-1].progress
    assert (report.seen, report.hours) == ({State.SCHEDULED: 4}, {START // 3_600_000: 4})
    assert len(report.samples) == 4
    asked, other = [await bench.asked(Action.SKIP, State.SCHEDULED, **window) for _ in range(2)]
    skip = CancelSchedules.skip
    meanwhile = (
        Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(NOW + 90_000)),
        Outcome(state=State.SKIPPED, attempts=0, finished_at=UnixMillis(NOW + 5), reason="late"),
    )

    async def later(
        self: CancelSchedules, client_id: ClientId, ids: Sequence[ScheduleId], *, reason: str, turn: Turn
    ) -> object:
        for one, outcome in zip(ids, meanwhile, strict=False):
            write = RowWrite(key=key_of(one), outcome=outcome, expect_state=State.SCHEDULED)
            where, edits = partition_of(client_id, one), bench.randomness.uuid4()
            await bench.storage.schedules.update(
                ExternalUpdate(partition=where, edits=edits, version=None, version_known=True, writes=(write,))
            )
        return await skip(self, client_id, ids, reason=reason, turn=turn)

    monkeypatch.setattr(CancelSchedules, "skip", later)
    done = (await bench.slices(asked))[-1].progress
    assert done.outcomes == {Seen.SKIPPED: 2, Seen.CHANGED: 2}
    assert (done.seen, done.hours, done.samples) == (report.seen, report.hours, report.samples)
    ends = Counter((row["state"], row["reason"]) for row in bench.rows())
    assert ends == {("skipped", "overdue"): 2, ("retrying", None): 1, ("skipped", "late"): 1, (None, None): 1}
    monkeypatch.undo()
    again = (await bench.slices(other))[-1].progress
    assert again.outcomes == {Seen.SKIPPED: 2}, "what was skipped on request counts, not what a policy skipped"


def test_a_pace_gives_every_poller_its_own_instants() -> None:
    spacing = Spacing(start=1_000, step_ms=0.5)
    assert [spacing.next(PollerId(poller)) for poller in (0, 0, 1, 0, 1)] == [1_000, 1_000, 1_000, 1_001, 1_000]
    assert spacing.end == 1_002
    assert Spacing(start=5, step_ms=9).end == 5


FILTERED = [
    (ScheduleFilter(labels=("l1", "l2")), {1, 2, 6, 7, 11}),
    (ScheduleFilter(host="b.example"), {0, 3, 6, 9}),
    (ScheduleFilter(host="b.example", labels=("l0", "l1")), {0, 6}),
    (ScheduleFilter(destination="mail"), set()),
]


async def mixed(bench: Bench, *, state: State, due: int) -> None:
    """Twelve rows in three minutes."""
    for number in range(12):
        await bench.add(
            due + number * 15_000,
            number % 2,
            number,
            state=state,
            label=f"l{number % 5}",
            url=f"https://{'ab'[number % 3 == 0]}.example/",
        )


@pytest.mark.parametrize(("filter_", "meant"), FILTERED)
@pytest.mark.parametrize("action", Action)
async def test_only_what_the_filter_admits_is_handled_and_counted(
    action: Action, filter_: ScheduleFilter, meant: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "SLICE_ROWS", 5)
    bench = Bench()
    state, due = {
        Action.CANCEL: (State.SCHEDULED, NOW + 60_000),
        Action.SKIP: (State.SCHEDULED, START),
    }.get(action, (State.FAILED, START))
    await mixed(bench, state=state, due=due)
    done = (await bench.slices(await bench.asked(action, state, start=due, end=due + 300_000, filter_=filter_)))[-1]
    what = {
        Action.REPORT: Seen.COUNTED,
        Action.REDELIVER: Seen.REDELIVERED,
        Action.CANCEL: Seen.CANCELLED,
        Action.SKIP: Seen.SKIPPED,
    }[action]
    assert done.progress.outcomes == ({what: len(meant)} if meant else {})
    assert done.progress.seen == ({state: len(meant)} if meant else {})
    changed = [row["due"] for row in bench.rows() if row["redelivered_at"] or row["state"] in ("cancelled", "skipped")]
    assert sorted((one - due) // 15_000 for one in changed) == ([] if action is Action.REPORT else sorted(meant))


async def test_a_slice_that_is_done_again_counts_by_the_filter_too() -> None:
    """Another request has redelivered everything since, so nothing is left to do."""
    bench = Bench()
    await mixed(bench, state=State.FAILED, due=START)
    filter_ = ScheduleFilter(host="b.example")
    asked = await bench.asked(Action.REDELIVER, State.FAILED, end=START + 300_000, filter_=filter_)
    every = await bench.asked(Action.REDELIVER, State.FAILED, end=START + 300_000)
    await bench.slices(every)
    assert (await bench.slices(asked))[-1].progress.outcomes == {Seen.REDELIVERED: 4}


async def test_closing_counts_what_the_filter_admits() -> None:
    bench = Bench()
    await mixed(bench, state=State.FAILED, due=START)
    filter_ = ScheduleFilter(host="b.example", labels=("l0", "l1"))
    asked = await bench.asked(Action.REDELIVER, State.FAILED, end=START + 300_000, filter_=filter_)
    await bench.slices(await bench.asked(Action.REDELIVER, State.FAILED, end=START + 300_000))
    closed = await bench.once.close(bench.client, asked)
    assert closed.progress.outcomes == {Seen.REDELIVERED: 2}


async def test_content_is_read_only_of_rows_that_pass_other_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, read = Bench(), list[int]()
    for number in range(60):
        await bench.add(START + number, number % 3, number, label="x" if number % 6 == 0 else None, body=b"x" * 60_000)
    await bench.add(START + 70, 0, 70, state=State.DELIVERED, label="x")
    read_content = type(bench.storage.schedules).read_content

    async def counted(self: Any, partition: Any, keys: Any, **arguments: Any) -> Any:
        found = await read_content(self, partition, keys, **arguments)
        read.extend(one.size for one in found.values())
        return found

    monkeypatch.setattr(type(bench.storage.schedules), "read_content", counted)
    every = await bench.asked(Action.REPORT, State.FAILED, end=START + MINUTE_MS, filter_=ScheduleFilter(labels=("x",)))
    lean = await bench.once(bench.client, every, share=0.5, ours=lambda: True)
    assert (read, lean.reconciliation.progress.outcomes) == ([], {Seen.COUNTED: 10})
    filter_ = ScheduleFilter(labels=("x",), host="a.example")
    asked = await bench.asked(Action.REPORT, State.FAILED, end=START + MINUTE_MS, filter_=filter_)
    done = await bench.once(bench.client, asked, share=0.5, ours=lambda: True)
    assert (len(read), done.reconciliation.progress.outcomes) == (10, {Seen.COUNTED: 10})
    assert done.looked_at == lean.looked_at + sum(read) // reconcile.BYTES_AS_ROW
