"""Moves of the two incarnations: take the poller, lose it, look for minutes, do the machines' steps, send."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from msgspec import structs

from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import LeaseRow
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.outcome import conclude, defer
from poller_cluster.dispatch.request import Sender, prepare
from poller_cluster.minute import runner
from poller_cluster.minute.rows import PendingRow, Verdict
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.minute.steps import Phase, Stop
from scheduler_service.domain.ids import Minute, Partition, RowKey, UnixMillis, minute_end, minute_start
from scheduler_service.domain.schedules import Outcome
from tests.simulation.explorer.ground import At, Ground, Move, change_owner, machine_name
from tests.simulation.explorer.record import Player, Recorder
from tests.simulation.explorer.rules import check_call, check_content
from tests.simulation.explorer.scene import CLIENT, FIRST_MINUTE, POLLER
from tests.simulation.explorer.state import Call, Owner, State, machine_key
from tests.simulation.explorer.store import now
from tests.simulation.explorer.writers import Writers
from tests.support.admit_all import AdmitAll

PREFETCH_MS = 5_000
LOSABLE = ("WriteCommit", "OpenPartition")


@dataclass(frozen=True, slots=True)
class DeferAll(AdmitAll):
    """Defers every schedule that waits, and claims its retry row."""

    def judge(self, entry: PendingRow, now: int) -> Verdict:
        if entry.row.is_retry_row:
            return None
        return defer(entry.claim(), at=UnixMillis(now), in_doubt=entry.redelivery, reason="deferred")


class Owners:
    """The first incarnation holds the poller from the beginning; the second takes it once the first is not trusted."""

    def __init__(self, ground: Ground, writers: Writers) -> None:
        self._ground = ground
        self._scene = ground.scene
        self._writers = writers
        self._admission = DeferAll() if ground.scene.defers else AdmitAll()
        self._steps_known: dict[tuple[int, int, int], str] = {}

    def moves(self, state: State) -> Iterator[Move]:
        for owner in state.owners.values():
            if owner.alive and not owner.released:
                yield from self._owner_moves(state, owner)
        first = state.owners[1]
        if first.alive and not first.draining:
            if self._scene.zombie and first.trusted:
                yield Move("incarnation 1 loses trust", lambda s: change_owner(s, 1, trusted=False), fault=True)
            if self._scene.crash:
                yield Move("incarnation 1 crashes", self._crash, fault=True)
            if self._scene.hand_over and first.trusted:
                yield Move("incarnation 1 drains", self._drain, fault=True)
        if 2 not in state.owners and (not first.trusted or not first.alive or first.released):
            yield Move("incarnation 2 takes the poller", lambda s: self.take(s, 2))

    def take(self, state: State, epoch: int) -> None:
        """Take the poller, with a real lease and the real choice of the minute to begin at."""
        start = state.owners[1].position() if epoch == 2 else FIRST_MINUTE
        poller, leases = PollerKey(CLIENT, POLLER), self._ground.store.leases
        self._ground.enter(state)
        known = now(leases.read_lease(poller))
        incarnation = NodeIncarnation(NodeId(f"node-{epoch}"), IncarnationNumber(epoch))
        taken = LeaseRow(poller=poller, owner=incarnation, epoch=epoch, watermark=start, lagging=True)
        now(leases.write_lease(expected=known, new=taken))
        self._ground.leave(state)
        state.owners[epoch] = Owner(epoch=epoch, start=start)

    def hint(self, state: State, partition: Partition, key: RowKey) -> None:
        """A hint reaches every incarnation that holds the poller or believes it does."""
        for epoch, owner in state.owners.items():
            at = (epoch, partition.minute)
            if not owner.alive or owner.released:
                continue
            if at in state.machines:
                state.own_machine(at).hint([key])
                state.machine_keys[at] = machine_key(state.machines[at])
            elif owner.start <= partition.minute and partition.minute not in owner.passed and not owner.draining:
                self._start(state, at)

    def _owner_moves(self, state: State, owner: Owner) -> Iterator[Move]:
        at_ms = self._scene.now(state.tick)
        last = FIRST_MINUTE + max(self._scene.ticks, state.tick)
        for minute in map(Minute, range(owner.start, last + 1)):
            at = (owner.epoch, minute)
            if at in state.machines:
                yield from self._steps(state, at)
            elif minute not in owner.passed and not owner.draining and at_ms >= minute_start(minute) - PREFETCH_MS:
                yield Move(f"{machine_name(at)}: looks at the index", self._looking(at), machine_name(at))
        for index, (minute, claim) in enumerate(owner.outbox if owner.trusted else ()):
            if claim.row.due <= at_ms:
                name = machine_name((owner.epoch, minute))
                yield Move(f"{name}: sends {claim.row.due}", self._sending(owner.epoch, index), name)
        if owner.draining and not any(epoch == owner.epoch for epoch, _ in state.machines):
            yield Move("incarnation 1 releases the poller", lambda s: change_owner(s, 1, released=True))

    # How an incarnation ends.

    @staticmethod
    def _crash(state: State) -> None:
        change_owner(state, 1, alive=False, trusted=False, outbox=())
        for at in [at for at in state.machines if at[0] == 1]:
            del state.machines[at], state.machine_keys[at]
            state.busy.pop(at, None)
        for name in [name for name in state.tasks if name.startswith("incarnation 1")]:
            del state.tasks[name]

    def _drain(self, state: State) -> None:
        change_owner(state, 1, draining=True)
        for at in [at for at in state.machines if at[0] == 1]:
            state.own_machine(at).draining = True
            self._hand_out(state, at)

    # Minutes.

    def _looking(self, at: At) -> Callable[[State], None]:
        def look(state: State) -> None:
            epoch, minute = at
            owner = state.owners[epoch]
            if not self._may_read(owner):
                return
            self._ground.enter(state)
            if self._ground.store.occupied(CLIENT, minute):
                self._start(state, at)
            elif self._scene.now(state.tick) >= minute_end(minute) + self._scene.settings.grace_ms:
                change_owner(state, epoch, passed=owner.passed | {minute})

        return look

    def _may_read(self, owner: Owner) -> bool:
        return owner.trusted or self._scene.zombie_reads

    def _start(self, state: State, at: At) -> None:
        epoch, minute = at
        machine = self._scene.plant.machine(
            partition=Partition(CLIENT, POLLER, minute),
            epoch=epoch,
            settings=self._scene.settings,
            admission=self._admission,
        )
        state.machines[at], state.machine_keys[at] = machine, machine_key(machine)

    def _steps(self, state: State, at: At) -> Iterator[Move]:
        name = machine_name(at)
        if at in state.busy:
            yield Move(f"{name}: hears of {type(state.busy[at][0]).__name__}", self._hearing(at), name)
            return
        if not self._may_read(state.owners[at[0]]) and not state.machines[at].write_unanswered:
            return
        step = self._step_name(state, at)
        if step != "Wait":
            yield Move(f"{name}: {step}", self._stepping(at, lose=False), name)
        if step in LOSABLE and state.losses:
            yield Move(f"{name}: {step}, answer lost", self._stepping(at, lose=True), name, fault=True)

    def _step_name(self, state: State, at: At) -> str:
        known = (state.machine_keys[at], state.tick, self._headroom(state, at[0]))
        if known not in self._steps_known:
            self._steps_known[known] = type(self._step(state.copied(), at)).__name__
        return self._steps_known[known]

    def _step(self, state: State, at: At) -> Any:
        return state.own_machine(at).step(self._scene.now(state.tick), self._headroom(state, at[0]))

    def _headroom(self, state: State, epoch: int) -> int:
        return max(self._scene.headroom - len(state.owners[epoch].outbox), 0)

    def _stepping(self, at: At, *, lose: bool) -> Callable[[State], None]:
        def do(state: State) -> None:
            step = self._step(state, at)
            if isinstance(step, Stop):
                self._stopped(state, at)
                return
            state.losses -= lose
            store = self._ground.store
            self._ground.enter(state)
            if self._scene.split:
                recorder = Recorder(store, lose=lose)
                twin = state.copied()
                self._ask(twin, at, self._step(twin, at), recorder, recorder)
                state.busy[at] = (step, tuple(recorder.answers))
                state.machine_keys[at] = machine_key(state.machines[at])
            else:
                store.schedules.lose = lose
                self._ask(state, at, step, store.schedules, store.balances)
            self._ground.leave(state)

        return do

    def _hearing(self, at: At) -> Callable[[State], None]:
        def hear(state: State) -> None:
            step, answers = state.busy.pop(at)
            state.own_machine(at)
            player = Player(answers)
            self._ask(state, at, step, player, player)

        return hear

    def _ask(self, state: State, at: At, step: Any, schedules: Any, balances: Any) -> None:
        """Do a step as the product does."""
        self._ground.trusted = self._may_read(state.owners[at[0]])
        context = self._ground.context(schedules, balances)
        run = MinuteRun(machine=state.machines[at], context=context, admission=self._admission)
        with mock.patch.object(runner, "PAGE_ROWS", self._scene.page_rows), suppress(StoreUnavailable):
            now(run._ask(step))
        self._hand_out(state, at)

    def _stopped(self, state: State, at: At) -> None:
        epoch, minute = at
        machine = state.machines[at]
        if machine.phase is Phase.LOST:
            return
        if machine.phase is Phase.SETTLED:
            change_owner(state, epoch, passed=state.owners[epoch].passed | {minute})
        del state.machines[at], state.machine_keys[at]

    def _hand_out(self, state: State, at: At) -> None:
        """Pass on what the shell passes on after every step."""
        epoch, minute = at
        machine, outbox = state.machines[at], state.owners[epoch].outbox
        # What a row has waited for changes nothing, and would be another state.
        outbox += tuple((minute, structs.replace(claim, waits=None)) for claim in machine.take_claims())
        if machine.draining or machine.phase is Phase.LOST:
            for _, claim in (item for item in outbox if item[0] == minute):
                machine.unclaimed(claim.row.key)
            outbox = tuple(item for item in outbox if item[0] != minute)
        change_owner(state, epoch, outbox=outbox)
        if machine.phase is not Phase.LOST:
            for follow_up in machine.follow_ups.take():
                self._writers.follow_up(state, at, follow_up)
        state.machine_keys[at] = machine_key(machine)

    # Attempts.

    def _sending(self, epoch: int, index: int) -> Callable[[State], None]:
        def send(state: State) -> None:
            owner = state.owners[epoch]
            minute, claim = owner.outbox[index]
            state.owners[epoch] = replace(owner, outbox=owner.outbox[:index] + owner.outbox[index + 1 :])
            outcome = self._attempt(state, epoch, claim)
            at = (epoch, minute)
            if at in state.machines:
                state.own_machine(at).attempt_ended(claim.row.key, outcome, now=self._scene.now(state.tick))
                state.machine_keys[at] = machine_key(state.machines[at])

        return send

    def _attempt(self, state: State, epoch: int, claim: Claim) -> Outcome:
        at_ms, client = self._scene.now(state.tick), self._ground.client
        sender = Sender(f"node-{epoch}", "explored")
        prepared = prepare(claim, client=client, epoch=epoch, sender=sender, now=at_ms)
        if isinstance(prepared, Outcome):
            return prepared
        headers = dict(prepared.request.headers)
        attempt = int(headers["Minutehand-Attempt"])
        number = (claim.row.schedule_id.int & 0xFF) - 1
        call = Call(number, attempt, epoch, "Minutehand-Redelivery" in headers, prepared.request.url)
        check_call(self._ground, state, claim, call)
        state.calls = (*state.calls, call)
        check_content(state)
        status = 500 if attempt <= self._scene.fails else 200
        return conclude(
            claim,
            AttemptResult(status=status, error=None, started_at_ms=at_ms, duration_seconds=0.0),
            options=prepared.options,
            settings=client.settings,
            epoch=epoch,
            incarnation=sender.incarnation,
            now=at_ms,
            jitter=lambda: 0.5,
        )
