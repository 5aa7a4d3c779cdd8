"""Moves of all but the owners' machines: creates, cancels, redeliveries, and the follow-ups that owners start."""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from membership.errors import StoreUnavailable
from poller_cluster.minute.follow_up_runner import carry_out
from poller_cluster.minute.steps import FollowUp
from scheduler_service.usecases.cancel_schedules import Cancelled
from scheduler_service.usecases.complete_reschedule import CompleteReschedule
from scheduler_service.usecases.reschedule_schedule import Updated
from scheduler_service.usecases.schedule_update import CallbackUpdate, UpdateRequest
from tests.simulation.explorer.ground import At, Ground, Move, machine_name
from tests.simulation.explorer.redeliver import redeliver
from tests.simulation.explorer.rules import check_content
from tests.simulation.explorer.scene import CLIENT, NEW_URL
from tests.simulation.explorer.state import State, machine_key
from tests.simulation.explorer.store import now
from tests.simulation.explorer.tasks import NOTHING, Op, Port, Task, proceed

UPDATE = UpdateRequest(callback=CallbackUpdate(url=NEW_URL))


class Writers:
    """Each writer is a task: it moves when the operation it waits for takes effect, and when it gets the answer."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._states_known: dict[int, dict[int, str | None]] = {}

    def moves(self, state: State) -> Iterator[Move]:
        for name, task in state.tasks.items():
            if not task.done:
                yield from self._task_moves(state, name, task)
        scene = self._ground.scene
        for number, row_state in self._originals(state).items():
            if scene.cancel and f"cancel {number}" not in state.tasks:
                yield self._beginning("cancel", number)
            if scene.update and f"update {number}" not in state.tasks:
                yield self._beginning("update", number)
            if scene.redeliver and f"redeliver {number}" not in state.tasks and row_state == "delivered":
                yield self._beginning("redeliver", number)

    def begin(self, state: State, task: Task) -> None:
        """Start a task, unless one of that name is running."""
        if task.name not in state.tasks or state.tasks[task.name].done:
            self._tell(state, task, None)

    def follow_up(self, state: State, at: At, follow_up: FollowUp) -> None:
        row = f"{follow_up.key.due}/{follow_up.key.schedule_id.int & 0xF}"
        self.begin(
            state, Task(f"{machine_name(at)} carries out {row} {follow_up.outcome.state}", "follow-up", (at, follow_up))
        )

    def _task_moves(self, state: State, name: str, task: Task) -> Iterator[Move]:
        waits = task.waits
        if task.answer is not NOTHING:
            yield Move(f"{name} hears", lambda s: self._tell(s, s.tasks[name], s.tasks[name].answer), name)
        elif waits is not None:
            yield Move(f"{name}: {waits.method}", self._granting(name, lose=False), name)
            if waits.conditional and state.losses:
                yield Move(f"{name}: {waits.method}, answer lost", self._granting(name, lose=True), name, fault=True)
        if task.kind in ("create", "redeliver", "update") and state.writer_crashes:
            yield Move(f"{name}: its writer crashes", self._crashing(name), fault=True)

    def _beginning(self, kind: str, number: int) -> Move:
        return Move(f"{kind} {number} begins", lambda s: self.begin(s, Task(f"{kind} {number}", kind, number)))

    def _originals(self, state: State) -> dict[int, str | None]:
        """States of the original rows that exist."""
        found = self._states_known.get(state.tables_key)
        if found is None:
            found = self._states_known[state.tables_key] = {}
            self._ground.enter(state)
            for number in range(self._ground.scene.creates):
                definition = self._ground.scene.definition(number)
                _, rows = now(self._ground.store.schedules.read_rows(definition.partition, [definition.key]))
                if definition.key in rows and rows[definition.key].defined:
                    found[number] = rows[definition.key].state
        return found

    def _work(self, task: Task) -> Coroutine[Any, Any, Any]:
        ground = self._ground
        match task.kind:
            case "create":
                return ground.writer(ground.scene.definition(task.argument))
            case "cancel":
                return ground.cancel.one(CLIENT, ground.scene.definition(task.argument).schedule_id)
            case "update":
                schedule_id = ground.scene.definition(task.argument).schedule_id
                return ground.update(ground.scene.registered(), schedule_id, UPDATE)
            case "redeliver":
                definition = ground.scene.definition(task.argument)
                return redeliver(Port("schedules"), ground.writer, ground.circumstances, definition)
            case _:
                _, follow_up = task.argument
                context = ground.context(Port("schedules"), Port("balances"))
                reschedules = CompleteReschedule(schedules=context.schedules, writer=context.writer)
                return carry_out(follow_up, writer=context.writer, reschedules=reschedules, books=context.books)

    def _tell(self, state: State, task: Task, answer: Any) -> None:
        at_ms = self._ground.scene.now(state.tick)
        circumstances = self._ground.circumstances
        told = proceed(task, answer, begin=self._work, circumstances=circumstances, at=at_ms)
        state.tasks[task.name] = told
        state.hints |= set(circumstances.hints)
        if told.done:
            self._ended(state, told)

    def _ended(self, state: State, task: Task) -> None:
        failed = isinstance(task.result, StoreUnavailable)
        match task.kind:
            case "create" if not failed:
                state.acknowledged |= {task.argument}
            case "cancel" if isinstance(task.result, Cancelled):
                state.cancelled |= {task.argument}
            case "update" if not failed:
                if isinstance(task.result, Updated):
                    state.updated |= {task.argument}
                else:
                    state.refused |= {task.argument}
                check_content(state)
            case "redeliver" if task.result is True:
                state.redelivered |= {task.argument}
            case "follow-up":
                at, follow_up = task.argument
                del state.tasks[task.name]
                if failed:
                    self.follow_up(state, at, follow_up)
                elif at in state.machines:
                    state.own_machine(at).follow_ups.acknowledged(follow_up)
                    state.machine_keys[at] = machine_key(state.machines[at])
            case _:
                pass

    def _granting(self, name: str, *, lose: bool) -> Callable[[State], None]:
        def grant(state: State) -> None:
            task = state.tasks[name]
            assert task.waits is not None
            state.losses -= lose
            self._ground.enter(state)
            answer = self._performed(task.waits, lose=lose)
            self._ground.leave(state)
            if task.waits.method == "insert" or self._ground.scene.split:
                state.tasks[name] = replace(task, answer=answer)
            else:
                self._tell(state, task, answer)

        return grant

    def _performed(self, op: Op, *, lose: bool) -> Any:
        store: Any = self._ground.store
        port = store.writers if op.port == "schedules" else getattr(store, op.port)
        if lose:
            port.lose = True
        return now(getattr(port, op.method)(*op.arguments, **op.named))

    @staticmethod
    def _crashing(name: str) -> Callable[[State], None]:
        def crash(state: State) -> None:
            state.writer_crashes -= 1
            state.tasks[name] = replace(state.tasks[name], result="crashed", waits=None, answer=NOTHING)

        return crash
