"""Notices: requests that tell a client's destination of its events. Pure.

A notice is a row of the built-in client `$events`, whose content is a `NoticeContent`: where in the client's feed its
events are, not the events themselves. Its id derives from that place, so a repeated placement is the same row, and all
its attempts carry the same `webhook-id`. Other rows of `$events` append events to feeds (`EventContent`), or look
whether a schedule has succeeded by its deadline (`DeadlineContent`).
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.end_notices import EndNotice, answer_view
from scheduler_service.domain.events import Block, Event, EventType
from scheduler_service.domain.ids import (
    DAY_MS,
    HOUR_MS,
    ClientId,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    derived_schedule_id,
)
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.options import NO_HEADERS, NO_OPTIONS_TEXT, ScheduleOptions, Undecodable
from scheduler_service.domain.schedules import Definition, Kind
from scheduler_service.domain.subscriptions import ANY_EVENT, EventFilter, Subscription
from scheduler_service.domain.success_deadlines import LOOK_AFTER_MS, deadline_of

EVENTS_CLIENT: Final = ClientId("$events")
"""The built-in client whose rows are notices."""
NOTICE_SCHEME: Final = "minutehand://"
ON: Final = "on_"
"""What the names of a schedule's own notices begin with, and those of no subscription."""
EVENTS_GONE: Final = "events-gone"
"""Why a subscription's notice failed, or is not redelivered: its events were deleted after their time to live."""
NOTICE_EVENTS: Final = 100
"""Events of a notice at most."""
NOTICE_BYTES: Final = 262_144
"""Bytes of their data at most; one event may be larger."""
NOTICE_SPAN: Final = 1_000
"""The most seqs from the first event of a notice to its last: those between that are not wanted are read, too."""
NOTICE_WAIT_SECONDS: Final = 1.0
"""How long the first event of a notice waits for others."""
NOTICE_MS: Final = DAY_MS
"""How long after its due, or after its last redelivery, a notice is tried. Events are kept for longer."""
EVENTS_POLLERS: Final = 16
"""Each is guaranteed 1,000 notices a minute. An administrator may change the quota."""
APPENDING_POLLERS: Final = 64
"""Only so many pollers of `$events` append to feeds, whatever its quota: a reader's cursor has each of their tracks."""
EVENTS_SETTINGS: Final = ClientSettings(
    retry=RetrySettings(max_attempts=100, deadline_seconds=NOTICE_MS / 1000.0), max_in_flight=1_600, retention_days=2
)
"""Retries follow the settings of the client whose events are sent."""
NOTICE_KEPT_MS: Final = EVENTS_SETTINGS.retention_days * DAY_MS - HOUR_MS
"""How long after its due a notice is tried at most, however often it is redelivered: then its row may be deleted."""


class NoticeContent(msgspec.Struct, frozen=True, kw_only=True, tag="range", tag_field="kind"):
    """The body of a notice's row: the events of `client_id` from seq `first` to `last` of one block, as far as the
    subscription wants them. `letter_poller`: the client's poller under which its dead letter is listed."""

    client_id: ClientId
    subscription: str
    track: str
    epoch: int
    block: int
    first: int
    last: int
    letter_poller: PollerId = PollerId(0)

    @property
    def place(self) -> Block:
        return Block(self.track, self.epoch, self.block)


class EventContent(msgspec.Struct, frozen=True, kw_only=True, tag="event", tag_field="kind"):
    """The body of a row that tells of something else than the end of a schedule: its "call" appends the event to the
    client's feed."""

    client_id: ClientId
    event: Event


class DeadlineContent(msgspec.Struct, frozen=True, kw_only=True, tag="deadline", tag_field="kind"):
    """The body of a row that looks whether this schedule was delivered by its success deadline `by` (see
    `success_deadlines`)."""

    client_id: ClientId
    schedule_id: ScheduleId
    by: UnixMillis


RowContent: TypeAlias = NoticeContent | EventContent | EndNotice | DeadlineContent


class _EventFacts(msgspec.Struct, frozen=True):
    """What filters ask of an event's data."""

    label: str | None = None
    key: str | None = None
    cron_id: str | None = None
    destination: str | None = None


_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], RowContent] = msgspec.json.Decoder(RowContent).decode
_decode_facts = msgspec.json.Decoder(_EventFacts).decode


def notice_row(content: NoticeContent, *, due: UnixMillis, quota: int) -> Definition:
    """The row of `$events` that sends these events. Its URL has the client as host, so that each client's notices have
    the limits of one receiver, and leave room for the others'."""
    whose = f"{content.client_id} {content.subscription}"
    name = f"notice {whose} {content.track} {content.epoch} {content.block} {content.first}"
    return _row(content, name, due=due, quota=quota, label=f"{content.client_id}/{content.subscription}")


def event_row(client_id: ClientId, event: Event, *, quota: int) -> Definition:
    """The row of `$events` that appends this event to the client's feed, due when it happened. The same event makes the
    same row."""
    content = EventContent(client_id=client_id, event=event)
    name = f"event {client_id} {event.event_id}"
    return _row(content, name, due=event.at, quota=min(quota, APPENDING_POLLERS), label=f"{client_id}/{event.type}")


def end_notice_row(content: EndNotice, *, quota: int) -> Definition:
    """The row of `$events` that tells this end, due when it was. The same end makes the same row, whatever is known of
    its answer."""
    name = f"end {content.client_id} {content.on} {content.event.event_id}"
    return _row(content, name, due=content.event.at, quota=quota, label=f"{content.client_id}/{ON + content.on}")


def deadline_row(definition: Definition) -> Definition | None:
    """The row of `$events` that looks at this schedule at its deadline; None: it has none, as retry rows have none.
    The same schedule with the same deadline makes the same row."""
    if definition.kind is not Kind.CALL:
        return None
    return deadline_row_of(definition.client_id, definition.key, definition.options)


def deadline_row_of(client_id: ClientId, key: RowKey, options: str | None) -> Definition | None:
    """The same for an original row of this key."""
    if client_id == EVENTS_CLIENT or (by := deadline_of(options, due=key.due)) is None:
        return None
    content = DeadlineContent(client_id=client_id, schedule_id=key.schedule_id, by=by)
    name = f"deadline {client_id} {key.schedule_id} {by}"
    due = UnixMillis(by + LOOK_AFTER_MS)
    return _row(content, name, due=due, quota=EVENTS_POLLERS, label=f"{client_id}/{EventType.OVERDUE}")


def _row(content: RowContent, name: str, *, due: UnixMillis, quota: int, label: str) -> Definition:
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    poller_id = PollerId(int.from_bytes(digest, "big") % quota)
    return Definition(
        client_id=EVENTS_CLIENT,
        poller_id=poller_id,
        due=due,
        schedule_id=derived_schedule_id(due=due, poller_id=poller_id, name=name),
        method="POST",
        url=NOTICE_SCHEME + content.client_id,
        headers=NO_HEADERS,
        body=_encode(content),
        options=NO_OPTIONS_TEXT,
        label=label,
        created_at=due,
    )


def decode_notice(body: bytes | None) -> RowContent:
    """Raises Undecodable."""
    try:
        return _decode(body or b"")
    except (msgspec.DecodeError, RecursionError):
        raise Undecodable("the notice can't be decoded") from None


def tried_for_ms(options: ScheduleOptions, *, due: int) -> tuple[int, int]:
    """From which instant on a notice that was due at `due` is tried, and for how many milliseconds: from its last
    redelivery, if it was redelivered (or snoozed). `options`: those of its row."""
    begins = due if options.redelivery is None else options.redelivery.at
    return begins, max(min(NOTICE_MS, due + NOTICE_KEPT_MS - begins), 0)


def wants(subscription: Subscription, event: Event) -> bool:
    """Whether this event is sent for the subscription."""
    if not subscription.enabled or (subscription.events and event.type not in subscription.events):
        return False
    return subscription.filter == ANY_EVENT or _matches(subscription.filter, event)


def _matches(asked: EventFilter, event: Event) -> bool:
    try:
        facts = _decode_facts(event.data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return (
        (asked.label is None or facts.label == asked.label)
        and (asked.key_prefix is None or (facts.key is not None and facts.key.startswith(asked.key_prefix)))
        and (asked.cron_id is None or facts.cron_id == asked.cron_id)
        and (asked.destination is None or facts.destination == asked.destination)
    )


def notice_body(client_id: ClientId, subscription: str, events: Iterable[Event]) -> bytes:
    """The body that the destination gets."""
    return _encode({"client_id": client_id, "subscription": subscription, "events": _items(events)})


def end_notice_body(content: EndNotice) -> bytes:
    """The same of a schedule's own notice."""
    return _encode(
        {
            "client_id": content.client_id,
            "on": content.on,
            "events": _items([content.event]),
            "answer": answer_view(content.answer),
            "answer_known": content.answer_known,
        }
    )


def _items(events: Iterable[Event]) -> Sequence[dict[str, Any]]:
    return [
        {
            "id": str(event.event_id),
            "type": event.type,
            "at": format_instant(event.at),
            "schedule_id": None if event.schedule_id is None else str(event.schedule_id),
            "data": msgspec.Raw(event.data.encode()),
        }
        for event in events
    ]
