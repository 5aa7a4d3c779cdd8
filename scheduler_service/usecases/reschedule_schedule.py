"""Reschedule: a schedule that was not called yet is cancelled and created again at another instant, as one call.

    choose the new id -> announce its row -> cancel the old one, with the new id in that same update
                      (`rescheduled_to`) -> create the new one

So one side wins against the owner's claim, and the cancelled row names its replacement. A caller that dies in between
leaves either the old schedule unchanged, or a new one that others create (`complete_reschedule`).

A schedule with a key is due at the `latest` of that key at the latest, however it is replaced (`schedule_keys`).

The new id's free bits derive from the old id, its revision and the request. A repeat of the same request is therefore
recognised, whenever it comes and whatever instant its delay yields, and gets the answer of the first one. A schedule
that was revised since it was read is rescheduled under another id: so no announced row has the content of two.

An update (`schedule_update`) is carried out in place, under the same id, where the row does not move:

    waits, unclaimed, and its instant, ordering key and flow key stay     revised (`domain.revisions`)
    else, or is a fire of a cron, or a node runs that does not know       rescheduled, at the same instant unless it
      revisions                                                             asks for another

A schedule that is deferred or retried waits in a retry row, whose content is that of its original for good; so it is
rescheduled. A fire of a cron is one no more once it was changed, so it is not called as one.

A revision merges the update into what was read, and is written on condition that the row is still of the revision, and
its partition of the version, that were read: so of two updates none is lost, and an owner calls the old content or the
new one (`poller_cluster`, rule 2). `tests.models.revisions` walks every order of the steps. A repeat finds its name in
the revision.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET

from membership.conditional import Applied
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.destinations import read_named_url
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
from scheduler_service.domain.options import Undecodable, decode_headers, decode_options, encode_headers, pin_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.quotas import PollerChooser, pinned_poller
from scheduler_service.domain.retry_rows import (
    RESCHEDULED,
    RESCHEDULED_OTHERWISE,
    definition_of,
    key_mark,
    local_due_of,
    rescheduled,
    with_empty_body,
    with_flow,
    with_local_due,
    with_options,
)
from scheduler_service.domain.revisions import entity_tag, maker, revision_of
from scheduler_service.domain.schedules import Definition, PartitionHeader, Row, RowRevision
from scheduler_service.domain.spread import offset_ms, point_of
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    Cancelled,
    CancelSchedules,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    Revised,
    WasRescheduled,
)
from scheduler_service.usecases.create_traces import CreateTraces
from scheduler_service.usecases.deadline_request import faults_of_deadline
from scheduler_service.usecases.resolve_schedule import Resolved, ResolveSchedule
from scheduler_service.usecases.schedule_request import (
    CallbackPolicy,
    CallbackRequest,
    Instant,
    LocalTime,
    accepted_content,
    asked_flow,
    asked_instant,
    asked_local_due,
    asks_for_empty_body,
    draft_callback,
)
from scheduler_service.usecases.schedule_update import CallbackUpdate, UpdateRequest, updated_callback
from scheduler_service.usecases.schedule_writer import MAX_PARTITION_TURNS, ScheduleWriter


class RescheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The new instant: `due` (RFC 3339 with an offset, or a local time) or `delay_seconds` from now, exactly one of
    them; and a new callback, unless it stays the same."""

    due: Instant | LocalTime | None = None
    delay_seconds: float | None = None
    callback: CallbackRequest | None = None


class WindowReschedule(msgspec.Struct, frozen=True, kw_only=True):
    """One of many reschedules that are one request of the name `name`: by `shift_ms` from the instant at which the
    schedule is called next, or to `due` and less than `window_seconds` later, at a point of the schedule's own. An
    instant that has passed stands for now."""

    name: str
    shift_ms: int | None = None
    due: UnixMillis | None = None
    window_seconds: int = 0
    callback: None = None

    def instant(self, row: Row) -> UnixMillis:
        if self.shift_ms is not None:
            return UnixMillis((row.next_attempt_at or row.due) + self.shift_ms)
        assert self.due is not None
        return UnixMillis(self.due + offset_ms(point_of(f"{self.name} {row.schedule_id}"), self.window_seconds))


class LocalTimeReplacement(msgspec.Struct, frozen=True, kw_only=True):
    """The same call at the same local time, which zone data of another release puts at another instant: `due`, and
    `nominal_due` where the call is spread. `name`: of the release."""

    name: str
    due: UnixMillis
    nominal_due: UnixMillis | None = None
    callback: None = None

    def instant(self, row: Row) -> UnixMillis:
        return self.due


Change: TypeAlias = RescheduleRequest | UpdateRequest | WindowReschedule | LocalTimeReplacement


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """The old one will not be called, the new one will be."""

    new: Resolved


@dataclass(frozen=True, slots=True)
class Updated:
    """The schedule was changed under its id, now or before by the same request."""

    present: Resolved


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The schedule is as the update wants it. Nothing was written."""

    present: Resolved


RescheduleResult: TypeAlias = (
    Rescheduled | Updated | Unchanged | InFlight | InDoubt | WasRescheduled | AlreadyFinished | NoSuchSchedule
)


class _Judged(NamedTuple):
    """The instant to store, the whole callback that is asked for (None: it stays), and all faults of the request."""

    due: UnixMillis
    callback: CallbackRequest | None
    faults: list[FieldError]


class Chosen(NamedTuple):
    """How to carry out a change of the row that was read: as the schedule `new`; or in place, where that is its own id,
    with the content and label of `updated`."""

    new: ScheduleId
    row: Row
    header: PartitionHeader
    updated: Definition | None = None


class RescheduleSchedule:
    """Reschedules and updates schedules of clients that the caller has looked up, and that may create. `in_place()`:
    whether every node knows of revisions."""

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
        in_place: Callable[[], bool] = lambda: True,
        traces: CreateTraces | None = None,
    ) -> None:
        self._in_place = in_place
        self._traces = traces
        self._schedules = schedules
        self._resolve = resolve
        self._cancel = cancel
        self._writer = writer
        self._pollers = pollers
        self._check_url = policy.check_url
        self._bounds = policy.bounds
        self._encryption = policy.encryption
        self._destinations = policy.destinations
        self._admit_deadline = policy.admit_deadline
        self._clock = clock

    def faults(self, client: Client, request: Change) -> list[FieldError]:
        """All faults of a request that show without its schedule."""
        return self._judged(client, request, None).faults

    async def __call__(
        self,
        client: Client,
        schedule_id: ScheduleId,
        request: Change,
        *,
        chosen: ScheduleId | None = None,
        key: str | None = None,
        precondition: Precondition = NO_PRECONDITION,
    ) -> RescheduleResult:
        """`chosen`: what `choose` answered to the same request before; then it is not judged again, unless it is made
        in place or the schedule was revised since. `key`: the idempotency key of the request.

        Raises Invalid, ContentTooLarge, PreconditionFailed; StoreUnavailable when the outcome stays unknown: repeat.
        """
        made_by, tried = _made_by(schedule_id, request, key), 0
        for _ in range(MAX_PARTITION_TURNS):
            known = None if chosen is None else await self._chosen_before(client, schedule_id, request, chosen)
            choice = known or await self._choose(
                client,
                schedule_id,
                request,
                made_by=made_by,
                tried=tried,
                keyed=key is not None,
                check=precondition.check,
            )
            if not isinstance(choice, Chosen):
                return choice
            row = choice.row
            if choice.updated is not None:
                tried = revision_of(row.revision).number + 1
                if (updated := await self._revise(client, choice, choice.updated, made_by)) is not None:
                    return updated
                continue
            if not row.ended:
                new = self._definition(client, _naming(row, choice.new), request)
                if self._traces is not None:
                    self._traces.moved(new)
                await self._writer.announce(new)
            result = await self._cancel.as_read(
                client.client_id, row, reason=_reason(request), rescheduled_to=choice.new
            )
            match result:
                case WasRescheduled(row=row):
                    return await self._recognised(client, row, request)
                case Cancelled(row=row):
                    return AlreadyFinished(row)
                case Revised():
                    continue
                case _:
                    return result
        raise StoreUnavailable("this schedule changes too often")

    async def choose(
        self,
        client: Client,
        schedule_id: ScheduleId,
        request: Change,
        *,
        key: str | None = None,
        precondition: Precondition = NO_PRECONDITION,
    ) -> ScheduleId | RescheduleResult:
        """The id that the schedule would go on under, or the result where nothing is to be made. Nothing is written.
        Raises as above."""
        made_by = _made_by(schedule_id, request, key)
        choice = await self._choose(
            client, schedule_id, request, made_by=made_by, keyed=key is not None, check=precondition.check
        )
        return choice.new if isinstance(choice, Chosen) else choice

    async def _chosen_before(
        self, client: Client, schedule_id: ScheduleId, request: Change, chosen: ScheduleId
    ) -> Chosen | None:
        """None: it must be chosen again."""
        known = await self._read(client, schedule_id)
        if known is None or chosen == schedule_id:
            return None
        header, row = known
        return Chosen(chosen, row, header) if _names(chosen, _name(row, request)) else None

    async def _choose(
        self,
        client: Client,
        schedule_id: ScheduleId,
        request: Change,
        *,
        made_by: str,
        keyed: bool,
        tried: int = 0,
        check: Callable[[str], None] = lambda tag: None,
    ) -> Chosen | RescheduleResult:
        """`tried`: the revision that this request may have made; 0: none yet."""
        known = await self._read(client, schedule_id)
        if known is None:
            return NoSuchSchedule()
        header, row = known
        in_flight = row.state is None and schedule_id in header.in_flight
        if _was_made(row, made_by, tried=tried, anywhere=keyed):
            return Updated(Resolved(row, in_flight, header))
        if row.rescheduled_to is not None:
            return await self._recognised(client, row, request)
        check(entity_tag(schedule_id, row.revision))
        if isinstance(request.callback, CallbackRequest | CallbackUpdate):
            await self._destinations.look_up(client.client_id, _destinations(request.callback, row))
        due, callback, faults = self._judged(client, request, row)
        if faults:
            raise Invalid(faults)
        if row.ended:
            return AlreadyFinished(row)
        if in_flight:
            return InFlight(row)
        mark = key_mark(row.options)
        if mark is not None and mark.latest is not None:
            due = UnixMillis(min(due, max(mark.latest, self._clock.wall_ms())))
        pin = _pin(row, callback)
        if isinstance(request, UpdateRequest) and (request.keeps_instant or due == (row.next_attempt_at or row.due)):
            present = definition_of(partition_of(client.client_id, schedule_id), row)
            updated = self._updated(client, present, request, callback)
            if updated == present:
                return Unchanged(Resolved(row, in_flight=False, header=header))
            stays = row.state is None and row.cron_id is None and pin == pin_of(row.options, row.ordering_key)
            if stays and self._in_place():
                return Chosen(schedule_id, row, header, updated)
        if pin is None:
            poller_id = self._pollers.choose(client.client_id, minute_of(due), quota=client.poller_quota)
        else:
            poller_id = pinned_poller(client.client_id, pin, quota=client.poller_quota)
        return Chosen(derived_schedule_id(due=due, poller_id=poller_id, name=_name(row, request)), row, header)

    async def _revise(self, client: Client, choice: Chosen, updated: Definition, made_by: str) -> Updated | None:
        """One try. None: read the row again."""
        row, content = choice.row, updated.content
        revision = revision_of(row.revision).following(made_by, label=updated.label)
        content = msgspec.structs.replace(content, revision=revision.text)
        write = RowRevision(key=row.key, content=content, revision=revision.text, expect_revision=row.revision)
        partition = partition_of(client.client_id, row.schedule_id)
        answer = await self._writer.revise(partition, write, header=choice.header)
        if not isinstance(answer, Applied):
            return None
        return Updated(Resolved(row.filled(content), in_flight=False, header=choice.header))

    async def _read(self, client: Client, schedule_id: ScheduleId) -> tuple[PartitionHeader, Row] | None:
        partition, key = partition_of(client.client_id, schedule_id), key_of(schedule_id)
        header, rows = await self._schedules.read_rows(partition, [key], serial=True)
        row = rows.get(key)
        return None if row is None or not row.defined else (header, row)

    def _judged(self, client: Client, request: Change, row: Row | None) -> _Judged:
        """Without the row, the callback and its faults are left out where it changes only a part of the old one."""
        faults: list[FieldError] = []
        now = self._clock.wall_ms()
        if isinstance(request, WindowReschedule | LocalTimeReplacement):
            assert row is not None
            due = request.instant(row)
            if due > now + client.settings.horizon_days * DAY_MS:
                faults.append(FieldError("/due", f"is more than {client.settings.horizon_days} days ahead"))
        elif not isinstance(request, UpdateRequest) or not request.keeps_instant:
            due = asked_instant(request, now=now, settings=client.settings, faults=faults)
        else:
            due = UnixMillis(now) if row is None else row.next_attempt_at or row.due
        callback = self._callback(client, row, request, faults)
        if callback is not None:
            draft_callback(
                callback,
                settings=client.settings,
                check_url=self._check_url,
                faults=faults,
                check_destination=self._destinations.check(client.client_id),
            )
        if isinstance(request, UpdateRequest):
            faults += self._bounds.faults_of_schedule(request.retry or None, request.timeout_seconds or None)
            if request.succeed_within_seconds:
                self._admit_deadline()
                faults += faults_of_deadline(client.settings, request.succeed_within_seconds)
        return _Judged(UnixMillis(max(due, now)), callback, faults)

    def _callback(
        self, client: Client, row: Row | None, request: Change, faults: list[FieldError]
    ) -> CallbackRequest | None:
        """The whole callback that is asked for; None: it stays, or is not known for lack of the row. Raises
        SecretLocked."""
        if not isinstance(request, UpdateRequest):
            return request.callback
        if request.callback is None or row is None:
            return None
        try:
            headers = decode_headers(self._encryption.open_headers(client.client_id, row.headers or ""))
            options = decode_options(row.options)
        except Undecodable:
            faults.append(FieldError("/callback", "the stored one can't be read; create the schedule again"))
            return None
        return updated_callback(request.callback, row, headers=headers, options=options)

    async def _recognised(
        self, client: Client, row: Row, request: Change
    ) -> Rescheduled | WasRescheduled | AlreadyFinished:
        """The result for a row that is rescheduled already; if by this request, the new row is created unless it
        exists."""
        new = row.rescheduled_to
        assert new is not None
        if not _names(new, _name(row, request)):
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

    def _definition(self, client: Client, row: Row, request: Change) -> Definition:
        same, callback = rescheduled(client.client_id, row), self._callback(client, row, request, [])
        if isinstance(request, LocalTimeReplacement):
            return _at_local_time(same, row, nominal_due=request.nominal_due)
        if not isinstance(request, UpdateRequest):
            if isinstance(request, RescheduleRequest):
                same = msgspec.structs.replace(same, options=_due_as_asked(same.options, request.due))
            return same if callback is None else self._calling(client, same, callback)
        if request.keeps_instant and same.due == row.due:
            same = _at_local_time(same, row, nominal_due=row.nominal_due)
        return self._updated(client, same, request, callback)

    def _updated(
        self, client: Client, same: Definition, request: UpdateRequest, callback: CallbackRequest | None
    ) -> Definition:
        """`same`, the row's definition under its id or another, with what the update asks for."""
        if callback is not None:
            same = self._calling(client, same, callback)
        asked, options = request.options(), same.options
        if not request.keeps_instant:
            options = _due_as_asked(options, request.due)
        return msgspec.structs.replace(
            same,
            label=same.label if request.label is UNSET else request.label,
            options=with_options(options, asked) if asked else options,
        )

    def _calling(self, client: Client, same: Definition, callback: CallbackRequest) -> Definition:
        # It was valid when the old schedule was cancelled; refusing it now would leave neither of the two.
        (method, url), (headers, body) = callback.stored_call, accepted_content(callback)
        sealed = self._encryption.seal_headers(client.client_id, encode_headers(headers))
        options = with_flow(with_empty_body(same.options, asked=asks_for_empty_body(callback)), asked_flow(callback))
        return msgspec.structs.replace(same, method=method, url=url, headers=sealed, body=body, options=options)


def _due_as_asked(options: str, due: str | LocalTime | None) -> str:
    """The options of a call whose instant was asked for as `due`."""
    return with_local_due(options, asked_local_due(due))


def _at_local_time(same: Definition, row: Row, *, nominal_due: UnixMillis | None) -> Definition:
    """`same`, due at the local time that was asked for in the row, if there was one."""
    options = with_local_due(same.options, local_due_of(row.options))
    return msgspec.structs.replace(same, options=options, nominal_due=nominal_due)


def _destinations(callback: CallbackRequest | CallbackUpdate, row: Row) -> list[str | None]:
    """The destinations that the callback may name."""
    named = read_named_url(row.url or "")
    asked = callback.destination
    return [None if asked is UNSET else asked, None if named is None else named.name]


def _pin(row: Row, callback: CallbackRequest | None) -> str | None:
    """The name that decides the poller of the new schedule."""
    if callback is None:
        return pin_of(row.options, row.ordering_key)
    return row.ordering_key if callback.flow_key is None else callback.flow_key


def _reason(request: Change) -> str:
    """Only the same call at another instant can be derived from the cancelled row."""
    if isinstance(request, UpdateRequest) or request.callback is not None:
        return RESCHEDULED_OTHERWISE
    return RESCHEDULED


def _naming(row: Row, new: ScheduleId) -> Row:
    """The row as it will be once it is cancelled in favour of `new`."""
    return msgspec.structs.replace(row, rescheduled_to=new)


def _was_made(row: Row, made_by: str, *, tried: int, anywhere: bool) -> bool:
    """Whether this request has made a revision of the row: its last one, that which it tried to make, or `anywhere` any
    that is remembered. Else a request that is repeated after others were made is one more."""
    present = revision_of(row.revision)
    made = made_by in present.made_by if anywhere else present.maker_of(present.number) == made_by
    return made or (tried > 0 and present.maker_of(tried) == made_by)


def _made_by(schedule_id: ScheduleId, request: Change, key: str | None) -> str:
    return maker(schedule_id.bytes, msgspec.json.encode(request), (key or "").encode())


def was_rescheduled_by(row: Row, change: WindowReschedule) -> bool:
    """Whether a row was cancelled in favour of a successor by this request."""
    return row.rescheduled_to is not None and _names(row.rescheduled_to, _name(row, change))


def _name(row: Row, request: Change) -> str:
    if isinstance(request, WindowReschedule):
        asked = request.name
    else:
        asked = hashlib.blake2b(msgspec.json.encode(request), digest_size=16).hexdigest()
    revised = "" if row.revision is None else f" {revision_of(row.revision).number}"
    return f"reschedule {row.schedule_id} {asked}{revised}"


def _names(new: UUID, name: str) -> bool:
    """Whether the id derives from this name, whatever its instant and poller."""
    return new == derived_schedule_id(due=due_of(new), poller_id=poller_of(new), name=name)
