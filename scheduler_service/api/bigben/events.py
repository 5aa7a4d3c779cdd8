"""Events: what BigBen's callers send, as requests for schedules. Pure."""

import hashlib
import uuid
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from scheduler_service.api.bigben.processors import EVENT_HEADER, MAX_NAME, destination_name, quoted
from scheduler_service.api.bigben.times import read_time, rfc3339, time_text
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.usecases.schedule_request import CallbackRequest, ScheduleRequest

FULL_EVENT: Final = "FULL_EVENT"
PAYLOAD_ONLY: Final = "PAYLOAD_ONLY"
PAYLOAD_ONLY_ID: Final = "a-"
"""What ids of events begin with that are delivered so; BigBen tells them by it."""
_EVENT_IDS: Final = uuid.UUID("6f0f2f6e-6b0c-5d0a-9a57-1b6f2f0d6a11")

Text = Annotated[str, Meta(max_length=MAX_NAME)] | int
"""BigBen reads numbers as texts."""
Mode = Literal["UPSERT", "REMOVE"]
DeliveryOption = Literal["FULL_EVENT", "PAYLOAD_ONLY"]


class EventRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """One event of `POST /events/schedule`."""

    id: Text | None = None
    event_time: str | None = None
    tenant: Annotated[str, Meta(max_length=MAX_NAME)] | None = None
    payload: str | int | None = None
    mode: Mode = "UPSERT"
    delivery_option: DeliveryOption | None = FULL_EVENT


class EventError(msgspec.Struct, frozen=True):
    code: int
    message: str


class EventResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event as BigBen answers it, and as it sends it to a receiver."""

    id: str | None
    event_time: str | None
    tenant: str | None
    mode: str = "UPSERT"
    payload: str | None = None
    event_id: str | None = None
    triggered_at: str | None = None
    event_status: str | None = None
    error: EventError | None = None
    delivery_option: str | None = FULL_EVENT


class Event(NamedTuple):
    """One event, read. `faults`: what is wrong with it beside the rules of a schedule. `lapsed`: it was due before it
    was asked for, so it is called at once."""

    request: EventRequest
    faults: Sequence[FieldError]
    lapsed: bool = False

    @property
    def tenant(self) -> str:
        return self.request.tenant or ""

    @property
    def id(self) -> str:
        return "" if self.request.id is None else str(self.request.id)

    @property
    def key(self) -> str:
        """The key of its schedule."""
        return key_of(self.tenant, self.id)

    def answer(self) -> EventResponse:
        """The request as BigBen repeats it in its answer, with nothing decided."""
        asked = self.request
        return EventResponse(
            id=text_of(asked.id),
            event_time=asked.event_time,
            tenant=asked.tenant,
            mode=asked.mode,
            payload=text_of(asked.payload),
            delivery_option=asked.delivery_option,
        )


def key_of(tenant: str, event_id: str) -> str:
    """The schedule key of an event. A digest, because a key has visible ASCII characters only."""
    named = msgspec.json.encode([tenant, event_id])
    return f"bigben-{hashlib.sha256(named).hexdigest()}"


def event_id_of(key: str, due: int, delivery_option: str) -> str:
    """BigBen's own id of an event: another one for each instant that it is put to, and the same for a repeat."""
    made = uuid.uuid5(_EVENT_IDS, f"{key}/{due}")
    return f"{PAYLOAD_ONLY_ID if delivery_option == PAYLOAD_ONLY else ''}{made}"


def text_of(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def read_event(asked: EventRequest, *, now: int) -> Event:
    """An event that is asked for at `now` (Unix milliseconds)."""
    faults: list[FieldError] = []
    if asked.tenant is None or not asked.tenant.strip():
        faults.append(FieldError("/tenant", "is required"))
    if asked.id is None or not str(asked.id).strip():
        faults.append(FieldError("/id", "is required"))
    if asked.mode == "REMOVE":
        return Event(asked, faults)
    lapsed = False
    if asked.event_time is None:
        faults.append(FieldError("/eventTime", "is required"))
    else:
        try:
            lapsed = read_time(asked.event_time) < now
        except ValueError as error:
            faults.append(FieldError("/eventTime", str(error)))
    if asked.delivery_option == PAYLOAD_ONLY and asked.payload is None:
        faults.append(FieldError("/payload", f"is required with the deliveryOption {PAYLOAD_ONLY}"))
    return Event(asked, faults, lapsed)


def schedule_of(event: Event, *, now: int, accept_past_ms: float) -> ScheduleRequest:
    """The schedule that an UPSERT asks for; with stand-ins for what is wrong. An event that lapsed longer ago than
    `accept_past_ms` is put to the present: it is called, and its instant is only known from its body."""
    asked, event_time = event.request, event.request.event_time
    wrong = event_time is None or any(fault.pointer == "/eventTime" for fault in event.faults)
    due = None if wrong or event_time is None else read_time(event_time)
    if due is not None and event_time is not None and due >= now - accept_past_ms:
        text, delay = rfc3339(event_time), None
    else:
        text, delay = None, 0.0
    return ScheduleRequest(
        callback=_callback(event, due=now if due is None else due, now=now),
        due=text,
        delay_seconds=delay,
        label=asked.tenant or None,
        key=event.key,
    )


def _callback(event: Event, *, due: int, now: int) -> CallbackRequest:
    asked, payload = event.request, text_of(event.request.payload)
    if asked.delivery_option != PAYLOAD_ONLY:
        sent = EventResponse(
            id=event.id,
            event_time=time_text(due),
            tenant=event.tenant,
            payload=payload,
            event_id=None if event.lapsed else event_id_of(event.key, due, FULL_EVENT),
        )
        return full_event(sent, triggered_at=max(due, now))
    return callback_to(event.tenant, event.id, payload or "")


def full_event(event: EventResponse, *, triggered_at: int) -> CallbackRequest:
    """The call that sends the whole event."""
    sent = msgspec.structs.replace(event, triggered_at=time_text(triggered_at), event_status="TRIGGERED", error=None)
    return callback_to(event.tenant or "", event.id or "", msgspec.json.encode(sent).decode())


def callback_to(tenant: str, event_id: str, body: str) -> CallbackRequest:
    """The call that sends `body` to a tenant's processor."""
    headers = {EVENT_HEADER: quoted(event_id)} if event_id else {}
    return CallbackRequest(destination=destination_name(tenant), headers=headers, body=body)


def named(event_id: str | None, tenant: str | None) -> tuple[str, str]:
    """The parameters of a request for one event. Raises Invalid."""
    given = {"/id": event_id, "/tenant": tenant}
    faults = [
        FieldError(pointer, "is required") for pointer, value in given.items() if value is None or not value.strip()
    ]
    if faults:
        raise Invalid(faults)
    assert event_id is not None
    assert tenant is not None
    return event_id, tenant
