"""What must hold at every call, and when no more moves are possible."""

from poller_cluster.dispatch.job import Claim
from scheduler_service.domain.ids import Minute, UnixMillis, minute_of
from scheduler_service.domain.retry_rows import MARK_IN_DOUBT
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.schedules import State as RowState
from tests.simulation.explorer.ground import Ground
from tests.simulation.explorer.scene import FIRST_MINUTE, NEW_URL, OLD_URL
from tests.simulation.explorer.state import Call, State
from tests.simulation.explorer.store import now


class Violation(AssertionError):
    """A promise was broken."""


def check_call(ground: Ground, state: State, claim: Claim, call: Call) -> None:
    """Checked just before a request reaches the receiver."""
    if call.number in state.cancelled:
        raise Violation("called after its cancel was answered")
    if not call.in_doubt and any((one.number, one.attempt) == (call.number, call.attempt) for one in state.calls):
        raise Violation("called twice without doubt")
    if ground.scene.hand_over and call.in_doubt and 1 in state.owners and state.owners[1].released:
        raise Violation("handed over as planned, yet in doubt")
    row = _row(ground, state, call.number, claim.row.due)
    if row is None or row.state is not None:
        raise Violation("called after an outcome was recorded")
    original = _original(ground, state, call.number)
    if original is None or original.ended:
        raise Violation("called after its schedule had ended")


def check_content(state: State) -> None:
    """Checked after every move: what is called is what the answer to the update says."""
    for call in state.calls:
        if call.number in state.updated and call.url != NEW_URL:
            raise Violation("its update was answered, and what was there before is called")
        if call.number in state.refused and call.url != OLD_URL:
            raise Violation("its update was refused, and is called")
        if any(other.number == call.number and other.url != call.url for other in state.calls):
            raise Violation("called with two contents")


def check_rest(ground: Ground, state: State) -> None:
    """Checked when no more moves are possible and the poller has an owner."""
    if any(owner.alive and owner.trusted and not owner.released for owner in state.owners.values()):
        for number in range(ground.scene.creates):
            _check_end(ground, state, number)


def _check_end(ground: Ground, state: State, number: int) -> None:
    row = _original(ground, state, number)
    calls = [call for call in state.calls if call.number == number]
    if row is None or not row.ended:
        # The process that reopens a settled minute must live until the retry row is placed; otherwise its caller has no
        # answer.
        reopened = f"redeliver {number}" in state.tasks and number not in state.redelivered
        if number in state.acknowledged and not reopened:
            raise Violation("acknowledged, no end")
        return
    if row.state == RowState.DELIVERED and not calls:
        raise Violation("delivered, never called")
    if row.state == RowState.DELIVERED and number in state.redelivered and len(calls) < 2:
        raise Violation("redelivered, not called again")
    if number in state.cancelled and row.state != RowState.CANCELLED:
        raise Violation("its cancel was answered, it is not cancelled")
    if number in state.cancelled and len(calls) > (row.attempts or 0) and not _placed_in_doubt(ground, state, number):
        raise Violation("its cancel was answered, yet it was called")


def _placed_in_doubt(ground: Ground, state: State, number: int) -> bool:
    """Whether a retry row says that an owner without trust may have called. The answer to a cancel then promises
    nothing about that call.
    """
    definition = ground.scene.definition(number)
    ground.enter(state)
    for minute in range(FIRST_MINUTE, FIRST_MINUTE + state.tick + 1):
        page = now(ground.store.schedules.read_page(definition.partition._replace(minute=Minute(minute))))
        if any(row.schedule_id == definition.schedule_id and MARK_IN_DOUBT in (row.options or "") for row in page.rows):
            return True
    return False


def _original(ground: Ground, state: State, number: int) -> Row | None:
    return _row(ground, state, number, ground.scene.definition(number).due)


def _row(ground: Ground, state: State, number: int, due: UnixMillis) -> Row | None:
    definition = ground.scene.definition(number)
    ground.enter(state)
    partition, key = definition.partition._replace(minute=minute_of(due)), definition.key._replace(due=due)
    _, rows = now(ground.store.schedules.read_rows(partition, [key]))
    found: Row | None = rows.get(key)
    return found
