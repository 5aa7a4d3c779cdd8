"""What came of a request, in BigBen's words. Pure. The tables here are all of its statuses and error texts.

HTTP   here, and there                                          body
200    done                                                     of each route
206    some events of several were not accepted                 the events, each with its status
400    invalid; none of the events was accepted                 {"message": every fault}, or the events
404    no such event                                            {"status": "not found"}
503    nothing could be stored, or it is not known (there 500)  {"message": ...}, or the events
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from membership.errors import MinutehandError
from scheduler_service.api.bigben.events import (
    FULL_EVENT,
    PAYLOAD_ONLY,
    Event,
    EventError,
    EventResponse,
    event_id_of,
    key_of,
    text_of,
)
from scheduler_service.api.bigben.times import read_time, time_text
from scheduler_service.api.problems import Problem, problem_of
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    Cancelled,
    CancelResult,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.create_schedules import Created
from scheduler_service.usecases.schedule_keys import Put, PutResult, Unchanged

ACCEPTED: Final = "ACCEPTED"
UPDATED: Final = "UPDATED"
TRIGGERED: Final = "TRIGGERED"
DELETED: Final = "DELETED"
REJECTED: Final = "REJECTED"
ERROR: Final = "ERROR"

STATUSES: Final[Mapping[str, str]] = {
    State.SCHEDULED: "UN_PROCESSED",
    State.RETRYING: "UN_PROCESSED",
    State.DELIVERED: "PROCESSED",
    State.FAILED: ERROR,
    State.SKIPPED: ERROR,
}
"""BigBen's status of an event by our state; one that was cancelled is not found. One in flight is TRIGGERED."""
_FIELDS: Final[Mapping[str, str]] = {
    "/due": "eventTime",
    "/delay_seconds": "eventTime",
    "/callback/destination": "tenant",
    "/callback/body": "payload",
    "/callback/headers": "id",
    "/label": "tenant",
    "/url": "props.url",
    "/kind": "type",
    "/target": "props",
    "/target/cluster": "props.bootstrap.servers",
    "/target/topic": "props.topic",
}
"""Fields of an event by those of its schedule, and of a processor by those of its destination; others are named
alike."""
_HTTP: Final[Mapping[int, int]] = {422: 400, 412: 400}
"""Status codes that BigBen's programs don't know, as those that they do."""
_IN_FLIGHT: Final = EventError(409, "it is being sent to its processor right now: nothing was changed")
_NO_TIME: Final = EventError(503, "the request had no time left for it: nothing was done; send it again")
_IN_DOUBT: Final = EventError(409, "it may have been sent already and will be sent again: nothing was changed")


def refusal(problem: Problem, error: Exception | None = None) -> tuple[int, object]:
    """A whole request that was refused."""
    status = _HTTP.get(problem.status, problem.status)
    if problem.errors:
        return status, {"message": _sentence([FieldError(fault.pointer, fault.detail) for fault in problem.errors])}
    said = {"message": f"{problem.title}: {problem.detail}"}
    return status, {"status": "not found", **said} if status == 404 else said


def error_of(error: MinutehandError) -> tuple[str, EventError]:
    """The status of one event, and its error."""
    if isinstance(error, Invalid):
        return REJECTED, EventError(400, _sentence(error.errors))
    problem = problem_of(error, request_id="")
    return (ERROR if problem.status >= 500 else REJECTED), EventError(problem.status, problem.detail)


def _sentence(faults: Sequence[FieldError]) -> str:
    return "; ".join(f"{_field(fault.pointer)}: {_detail(fault)}" for fault in faults)


def _field(pointer: str) -> str:
    return _FIELDS.get(pointer, pointer.removeprefix("/").replace("/", ".") or "the body")


def _detail(fault: FieldError) -> str:
    if fault.pointer == "/callback/destination":
        return "is not registered: register it first"
    return fault.detail


def answer_upsert(event: Event, result: Created | PutResult, *, now: int) -> EventResponse:
    due: int | None = None
    error: EventError | None = None
    match result:
        case Put(definition=made, replaced=replaced):
            status = UPDATED if replaced else ACCEPTED
            due = made.due if made.nominal_due is None else made.nominal_due
        case Unchanged(present=present):
            status, due = UPDATED, _asked(present.row)
        case InFlight():
            status, error = REJECTED, _IN_FLIGHT
        case InDoubt():
            status, error = REJECTED, _IN_DOUBT
        case MinutehandError():
            status, error = error_of(result)
        case _:
            raise AssertionError("an event is always put under its key")
    answer = msgspec.structs.replace(event.answer(), event_status=status, error=error)
    if due is None:
        return answer
    if event.lapsed:
        return msgspec.structs.replace(answer, event_status=TRIGGERED, triggered_at=time_text(now))
    option = event.request.delivery_option or FULL_EVENT
    return msgspec.structs.replace(answer, event_id=event_id_of(event.key, due, option))


def answer_remove(event: Event, result: CancelResult | MinutehandError) -> EventResponse:
    """An event that has ended is not said to be deleted: its status is the one that it ended with."""
    answer = EventResponse(id=text_of(event.request.id), event_time=None, tenant=event.request.tenant)
    match result:
        case Cancelled(row=row):
            body = (row.body or b"").decode(errors="replace")
            option = PAYLOAD_ONLY if _whole_event(body, event.id, event.tenant) is None else FULL_EVENT
            event_id = event_id_of(event.key, _asked(row), option)
            return msgspec.structs.replace(answer, event_status=DELETED, event_id=event_id)
        case NoSuchSchedule():
            return answer
        case AlreadyFinished(row=row):
            return msgspec.structs.replace(answer, event_status=None if _is_gone(row) else STATUSES[_state(row)])
        case InFlight() | WasRescheduled():
            status, error = REJECTED, _IN_FLIGHT
        case InDoubt():
            status, error = REJECTED, _IN_DOUBT
        case _:
            status, error = error_of(result)
    return msgspec.structs.replace(answer, event_status=status, error=error)


def answer_late(event: Event) -> EventResponse:
    """Nothing was done with it."""
    return msgspec.structs.replace(event.answer(), event_status=ERROR, error=_NO_TIME)


def status_code(answers: Sequence[EventResponse]) -> int:
    """The status code of an answer to several events."""
    statuses = [one.event_status for one in answers]
    failed = statuses.count(REJECTED) + statuses.count(ERROR)
    if failed < len(statuses):
        return 206 if failed else 200
    return 503 if ERROR in statuses else 400


def shown_event(event_id: str, tenant: str, row: Row, body: str, *, in_flight: bool) -> EventResponse | None:
    """An event that was found, with the `body` that its receiver gets; None: it was removed. What was delivered as a
    whole event is known by its body, which names itself."""
    if _is_gone(row):
        return None
    due, key = _asked(row), key_of(tenant, event_id)
    event = _whole_event(body, event_id, tenant)
    if event is None:
        event = EventResponse(
            id=event_id,
            event_time=time_text(due),
            tenant=tenant,
            payload=body,
            event_id=event_id_of(key, due, PAYLOAD_ONLY),
            delivery_option=PAYLOAD_ONLY,
        )
    status = TRIGGERED if in_flight else STATUSES[_state(row)]
    began = row.first_attempt_at if row.ended or in_flight else None
    return msgspec.structs.replace(
        event,
        event_status=status,
        triggered_at=None if began is None else time_text(began),
        error=_why(row) if status == ERROR else None,
    )


def _whole_event(body: str, event_id: str, tenant: str) -> EventResponse | None:
    try:
        event = _decode(body)
    except msgspec.DecodeError:
        return None
    if (event.id, event.tenant, event.delivery_option) != (event_id, tenant, FULL_EVENT):
        return None
    try:
        read_time(event.event_time or "")
    except ValueError:
        return None
    return event


def _why(row: Row) -> EventError:
    last = f"; the last answer was {row.last_status}" if row.last_status is not None else ""
    return EventError(500, f"{_state(row)}: {row.reason or row.last_error or 'without success'}{last}")


def _asked(row: Row) -> int:
    return row.due if row.nominal_due is None else row.nominal_due


def _state(row: Row) -> State:
    return State.SCHEDULED if row.state is None else State(row.state)


def _is_gone(row: Row) -> bool:
    return row.state == State.CANCELLED


_decode = msgspec.json.Decoder(EventResponse).decode
