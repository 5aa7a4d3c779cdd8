"""Reschedule: a schedule that was not called yet is cancelled and created again at another instant, as one call.

    choose the new id -> announce its row -> cancel the old one, with the new id in that same update
                      (`rescheduled_to`) -> create the new one

So one side wins against the owner's claim, and the cancelled row names its replacement. A caller that dies in between
leaves either the old schedule unchanged, or a new one that others create (`complete_reschedule`).

A schedule with a key is due at the `latest` of that key at the latest, however it is replaced (`schedule_keys`).

The new id's free bits derive from the old id and the request. A repeat of the same request is therefore recognised,
whenever it comes and whatever instant its delay yields, and gets the answer of the first one.
"""

import hashlib
from dataclasses import dataclass

import msgspec

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import (
    DAY_MS,
    ScheduleId,
    UnixMillis,
    derived_schedule_id,
    due_of,
    key_of,
    minute_of,
    partition_of,
    poller_of,
)
from scheduler_service.domain.options import encode_headers, pin_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.quotas import PollerChooser, pinned_poller
from scheduler_service.domain.retry_rows import (
    RESCHEDULED,
    RESCHEDULED_OTHERWISE,
    key_mark,
    rescheduled,
    with_empty_body,
    with_flow,
)
from scheduler_service.domain.schedules import Definition, PartitionHeader, Row
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    Cancelled,
    CancelSchedules,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.resolve_schedule import Resolved, ResolveSchedule
from scheduler_service.usecases.schedule_request import (
    CallbackPolicy,
    CallbackRequest,
    Instant,
    LocalTime,
    accepted_content,
    asked_flow,
    asked_instant,
    asks_for_empty_body,
    draft_callback,
)
from scheduler_service.usecases.schedule_writer import ScheduleWriter


class RescheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The new instant: `due` (RFC 3339 with an offset, or a local time) or `delay_seconds` from now, exactly one of
    them; and a new callback, unless it stays the same."""

    due: Instant | LocalTime | None = None
    delay_seconds: float | None = None
    callback: CallbackRequest | None = None


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """The old one will not be called, the new one will be."""

    new: Resolved


RescheduleResult = Rescheduled | InFlight | InDoubt | WasRescheduled | AlreadyFinished | NoSuchSchedule


class RescheduleSchedule:
    """Reschedules schedules of clients that the caller has looked up, and that may create."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        resolve: ResolveSchedule,
        cancel: CancelSchedules,
        writer: ScheduleWriter,
        pollers: PollerChooser,
        policy: CallbackPolicy,
        clock: Clock,
    ) -> None:
        self._schedules = schedules
        self._resolve = resolve
        self._cancel = cancel
        self._writer = writer
        self._pollers = pollers
        self._check_url = policy.check_url
        self._seal_headers = policy.encryption.seal_headers
        self._clock = clock

    def faults(self, client: Client, request: RescheduleRequest) -> list[FieldError]:
        """All faults of a request."""
        return self._judged(client, request)[1]

    async def __call__(
        self,
        client: Client,
        schedule_id: ScheduleId,
        request: RescheduleRequest,
        *,
        chosen: ScheduleId | None = None,
    ) -> RescheduleResult:
        """`chosen`: what `choose` answered to the same request before; then it is not judged again.

        Raises Invalid, ContentTooLarge; StoreUnavailable when the outcome stays unknown: repeat.
        """
        if chosen is None:
            choice = await self._choose(client, schedule_id, request)
            if not isinstance(choice, tuple):
                return choice
            chosen, row = choice
        else:
            known = await self._read(client, schedule_id)
            if known is None:
                return NoSuchSchedule()
            _, row = known
        if not row.ended:
            await self._writer.announce(self._definition(client, _naming(row, chosen), request))
        result = await self._cancel.one(
            client.client_id,
            schedule_id,
            reason=RESCHEDULED if request.callback is None else RESCHEDULED_OTHERWISE,
            rescheduled_to=chosen,
        )
        match result:
            case WasRescheduled(row=row):
                return await self._recognised(client, row, _name(schedule_id, request), request)
            case Cancelled(row=row):
                return AlreadyFinished(row)
            case _:
                return result

    async def choose(
        self, client: Client, schedule_id: ScheduleId, request: RescheduleRequest
    ) -> ScheduleId | RescheduleResult:
        """The id that the new schedule would get, or the result where none is needed. Nothing is written. Raises as
        above."""
        choice = await self._choose(client, schedule_id, request)
        return choice[0] if isinstance(choice, tuple) else choice

    async def _choose(
        self, client: Client, schedule_id: ScheduleId, request: RescheduleRequest
    ) -> tuple[ScheduleId, Row] | RescheduleResult:
        """The same, with the row as it was read."""
        name = _name(schedule_id, request)
        known = await self._read(client, schedule_id)
        if known is None:
            return NoSuchSchedule()
        header, row = known
        if row.rescheduled_to is not None:
            return await self._recognised(client, row, name, request)
        due, faults = self._judged(client, request)
        if faults:
            raise Invalid(faults)
        if row.ended:
            return AlreadyFinished(row)
        if row.state is None and schedule_id in header.in_flight:
            return InFlight(row)
        mark = key_mark(row.options)
        if mark is not None and mark.latest is not None:
            due = UnixMillis(min(due, max(mark.latest, self._clock.wall_ms())))
        pin = _pin(row, request)
        if pin is None:
            poller_id = self._pollers.choose(client.client_id, minute_of(due), quota=client.poller_quota)
        else:
            poller_id = pinned_poller(client.client_id, pin, quota=client.poller_quota)
        return derived_schedule_id(due=due, poller_id=poller_id, name=name), row

    async def _read(self, client: Client, schedule_id: ScheduleId) -> tuple[PartitionHeader, Row] | None:
        partition, key = partition_of(client.client_id, schedule_id), key_of(schedule_id)
        header, rows = await self._schedules.read_rows(partition, [key], serial=True)
        row = rows.get(key)
        return None if row is None or not row.defined else (header, row)

    def _judged(self, client: Client, request: RescheduleRequest) -> tuple[UnixMillis, list[FieldError]]:
        """The instant to store, and all faults of the request."""
        faults: list[FieldError] = []
        now = self._clock.wall_ms()
        due = UnixMillis(max(asked_instant(request, now=now, settings=client.settings, faults=faults), now))
        if request.callback is not None:
            draft_callback(request.callback, settings=client.settings, check_url=self._check_url, faults=faults)
        return due, faults

    async def _recognised(
        self, client: Client, row: Row, name: str, request: RescheduleRequest
    ) -> Rescheduled | WasRescheduled | AlreadyFinished:
        """The result for a row that is rescheduled already; if by this request, the new row is created unless it
        exists."""
        new = row.rescheduled_to
        assert new is not None
        if new != derived_schedule_id(due=due_of(new), poller_id=poller_of(new), name=name):
            return WasRescheduled(row)
        known = await self._resolve(client.client_id, ScheduleId(new))
        if known is None:
            if due_of(new) < self._clock.wall_ms() - client.settings.retention_days * DAY_MS:
                return AlreadyFinished(row)
            await self._writer(self._definition(client, row, request))
            known = await self._resolve(client.client_id, ScheduleId(new))
        if known is None:
            raise StoreUnavailable("the schedule was deleted while it was being created")
        return Rescheduled(known)

    def _definition(self, client: Client, row: Row, request: RescheduleRequest) -> Definition:
        same = rescheduled(client.client_id, row)
        if request.callback is None:
            return same
        # It was valid when the old schedule was cancelled; refusing it now would leave neither of the two.
        callback = request.callback
        headers, body = accepted_content(callback)
        sealed = self._seal_headers(client.client_id, encode_headers(headers))
        options = with_flow(with_empty_body(same.options, asked=asks_for_empty_body(callback)), asked_flow(callback))
        return msgspec.structs.replace(
            same, method=callback.method, url=callback.url, headers=sealed, body=body, options=options
        )


def _pin(row: Row, request: RescheduleRequest) -> str | None:
    """The name that decides the poller of the new schedule."""
    if request.callback is None:
        return pin_of(row.options, row.ordering_key)
    key = request.callback.flow_key
    return row.ordering_key if key is None else key


def _naming(row: Row, new: ScheduleId) -> Row:
    """The row as it will be once it is cancelled in favour of `new`."""
    return msgspec.structs.replace(row, rescheduled_to=new)


def _name(schedule_id: ScheduleId, request: RescheduleRequest) -> str:
    asked = hashlib.blake2b(msgspec.json.encode(request), digest_size=16).hexdigest()
    return f"reschedule {schedule_id} {asked}"
