"""Puts, shows and cancels schedules by a client's own key.

# Overview

A key names a schedule. A put under it makes another one, and exactly one of the two is called. The replaced one is
cancelled in favour of the new one, as a reschedule does (`complete_reschedule`), so the two compete in one conditional
write of the old one's partition. The key's row only tells where to begin: from the schedule that it names, the
cancelled ones lead to the present one (`rescheduled_to`).

    put: read the key ─▶ follow to the present one
           ├─ waiting    announce the new one ─▶ cancel the present one for it ─▶ go ahead with the key ─▶ create
           ├─ in flight  refused: a node has claimed it
           └─ ended, or there is none
                         announce the new one ─▶ take the key IF it is as read ─▶ create

The row has two parts. What took the key is written on a condition. A replacement goes ahead by a plain write, which
counts while the same one has the key, and of which the one of the highest revision stays. So a push costs one
conditional write, the cancel, with the header that the present one was read with; only where that is rejected or
unanswered is the partition read serially. What else it asks and writes is shared with puts of the same moment
(`cql.gathering`, `cql.group_commit`), and cancels of one partition are too (`cql.partition_turns`).

CPU seconds per 1,000 of the bench, 64 at once, while other work used the same two cores:

                                       API    Cassandra, without its compilers and collector
    plain create                       0.12   0.08
    put under a new key                0.49   1.11
    put again, which replaces one      0.56   0.66    (1.35 and 1.68 with two conditional writes and three serial reads)

# Rules

 1. A schedule is announced, by a plain insert without `created_at`, before anything names it.
 2. It is decided by one conditional write: the cancel that names it, or the key's row that names it.
 3. Each schedule has a higher revision than the one that it follows. The key's row never goes back to a lower
    revision, and it is ahead at a replacement before that is created. So retention deletes no schedule that is needed
    to find the present one.
 4. A put whose id is chosen (by an `Idempotency-Key` or a token `once`) makes that schedule, also where an equal one
    waits: only so does a repeat find that it was decided, and brings back nothing that was called, cancelled or
    replaced since. It looks for the chosen one after it has read the present one, under the due that it asks for and
    under the `latest` of the present one.
 5. A decided schedule that is only announced is created, before anything else, by any process that finds it: callers
    under the key, the owner of the cancelled row's minute, and the owner of the new row's minute.

So at most one schedule of a key is created and has not ended (`tests.models.schedule_keys` walks every order of three
callers that die and lose answers), and a caller that dies leaves the old one, or the new one.

# What is not guaranteed

A put whose answer was lost may be repeated; while the first one's schedule waits, an equal one without a chosen id
changes nothing. Once that was called, a repeat makes another one, unless both had the same chosen id. A repeat does not
find a schedule that was due earlier because of a `latest` if the key was put again meanwhile, without that. A key is
forgotten some time after its last schedule's due and retention."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.once import OnceIds
from scheduler_service.domain.options import decode_options, encode_options
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.retry_rows import RESCHEDULED_OTHERWISE, key_mark
from scheduler_service.domain.revisions import entity_tag
from scheduler_service.domain.schedule_keys import SLACK_DAYS, KeyHolder, KeyMark, KeyRow
from scheduler_service.domain.schedules import Definition, Row
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.cancel_schedules import (
    CancelResult,
    CancelSchedules,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    Revised,
    WasRescheduled,
)
from scheduler_service.usecases.create_schedules import Chosen, Created, CreateSchedules
from scheduler_service.usecases.key_chain import MAX_MOVES
from scheduler_service.usecases.redeliver import may_be_deleted
from scheduler_service.usecases.resolve_schedule import Resolved, ResolveSchedule
from scheduler_service.usecases.schedule_request import ScheduleRequest, asked_latest
from scheduler_service.usecases.schedule_writer import ScheduleWriter

MAX_FOLLOWED = 1000
"""Cancelled schedules that one request follows from the one that the key names."""


@dataclass(frozen=True, slots=True)
class Put:
    """The key names this new schedule. `replaced`: another one is not called because of it."""

    definition: Definition
    replaced: bool


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The key names an equal schedule already, which has not ended; or the chosen one is made, whatever became of
    it."""

    present: Resolved


PutResult: TypeAlias = Put | Unchanged | InFlight | InDoubt
"""In flight and in doubt: nothing has changed."""


class ScheduleKeys:
    """For clients that the caller has looked up, and for puts, that may create. Every method raises StoreUnavailable;
    then repeat."""

    def __init__(
        self,
        *,
        create: CreateSchedules,
        resolve: ResolveSchedule,
        cancel: CancelSchedules,
        writer: ScheduleWriter,
        clock: Clock,
    ) -> None:
        self._create = create
        self._resolve = resolve
        self._cancel = cancel
        self._writer = writer
        self._clock = clock

    async def show(self, client_id: ClientId, key: str) -> Resolved | None:
        """The schedule that the key names."""
        return (await self._present(client_id, key))[1]

    async def put(
        self,
        client: Client,
        request: ScheduleRequest,
        *,
        precondition: Precondition = NO_PRECONDITION,
        chosen: Chosen | None = None,
    ) -> PutResult:
        """Put a request under its key. `chosen`: the id to make, if it is not made yet. Raises what
        `CreateSchedules.admit` does, Invalid, ContentTooLarge, PreconditionFailed."""
        assert request.key is not None
        self._create.admit(client)
        for turn in range(MAX_MOVES):
            key, present = await self._present(client.client_id, request.key, serial=turn > 0)
            # After the present one was read: what decides the chosen one later changes that, so the write below fails.
            if chosen is not None and (made := await self._made(client, chosen, present)) is not None:
                return Unchanged(made)
            waits = present is not None and not present.row.ended
            precondition.check(_tag(present), absent=not waits)
            await self._create.look_up(client, [request])
            new = self._new(client, request, key, present, chosen)
            if present is None or not waits:
                if await self._take(new, key.taken):
                    await self._writer(new, consistency=client.settings.write_consistency)
                    return Put(new, replaced=False)
            elif chosen is None and _equal(new, present.row):
                return Unchanged(present)
            elif present.in_flight:
                return InFlight(present.row)
            else:
                await self._writer.announce(new)
                if (created := await self._replaced_at_once(client, present, new, key)) is not None:
                    return Put(created, replaced=True)
                match await self._replace(client.client_id, present.row, new):
                    case WasRescheduled(row=row) if row.rescheduled_to == new.schedule_id:
                        return Put(msgspec.structs.replace(new, created_at=row.finished_at), replaced=True)
                    case InFlight() | InDoubt() as refused:
                        return refused
                    case _:
                        continue
        raise StoreUnavailable("this key changes too often")

    async def many(
        self, client: Client, requests: Sequence[ScheduleRequest | Invalid], *, once: OnceIds | None = None
    ) -> list[Created | PutResult]:
        """Create the schedules without a key and put the others, those of one key in their order. One answer for each,
        as `CreateSchedules.many`."""
        self._create.admit(client)
        now = self._clock.wall_ms() if once is None else once.asked_at
        answers: list[Created | PutResult] = list(await self._create.defined(client, requests, now=now, once=once))
        plain: dict[int, Created] = {}
        keyed: dict[str, list[tuple[int, ScheduleRequest, Chosen | None]]] = {}
        for position, (request, made) in enumerate(zip(requests, answers, strict=True)):
            if isinstance(request, ScheduleRequest) and request.key is not None and isinstance(made, Definition):
                chosen = None if once is None else Chosen(made.schedule_id, now)
                keyed.setdefault(request.key, []).append((position, request, chosen))
            elif isinstance(made, (Definition, MinutehandError)):
                plain[position] = made

        async def put_in_order(key: str) -> None:
            for position, request, chosen in keyed[key]:
                try:
                    answers[position] = await self.put(client, request, chosen=chosen)
                except MinutehandError as error:
                    answers[position] = error

        placed, _ = await asyncio.gather(
            self._create.placed(client, list(plain.values())), concurrently(put_in_order, keyed)
        )
        for position, made in zip(plain, placed, strict=True):
            answers[position] = made
        return answers

    async def cancel(
        self, client_id: ClientId, key: str, *, precondition: Precondition = NO_PRECONDITION
    ) -> CancelResult:
        """Cancel the schedule that the key names. Raises PreconditionFailed."""
        for turn in range(MAX_MOVES):
            _, present = await self._present(client_id, key, serial=turn > 0)
            if present is None:
                precondition.check(None)
                return NoSuchSchedule()
            schedule_id = present.row.schedule_id
            # The schedule's own id as entity tag matches every revision of it.
            whatever = str(schedule_id) in (precondition.matches or ())
            result = await self._cancel.one(
                client_id, schedule_id, precondition=NO_PRECONDITION if whatever else precondition
            )
            if not isinstance(result, WasRescheduled):
                return result
        raise StoreUnavailable("this key changes too often")

    async def _present(self, client_id: ClientId, key: str, *, serial: bool = False) -> tuple[KeyRow, Resolved | None]:
        """The key's row, and the schedule that it leads to; the latter None if retention has deleted it."""
        row = await self._writer.keys.row(client_id, key, serial=serial)
        if (schedule_id := row.names) is None:
            return row, None
        for _ in range(MAX_FOLLOWED):
            found = await self._resolve(client_id, schedule_id)
            if found is None or found.row.rescheduled_to is None:
                return row, found
            schedule_id = ScheduleId(found.row.rescheduled_to)
        raise StoreUnavailable("this key is behind by too many schedules; try again")

    async def _made(self, client: Client, chosen: Chosen, present: Resolved | None) -> Resolved | None:
        """The chosen schedule, if it was made. Raises StoreUnavailable where it may have been made and deleted."""
        mark = None if present is None else key_mark(present.row.options)
        for one in dict.fromkeys((chosen, chosen.by(None if mark is None else mark.latest))):
            if (made := await self._resolve(client.client_id, one.schedule_id)) is not None:
                return made
            if may_be_deleted(client.settings, one.schedule_id, now=self._clock.wall_ms()):
                raise StoreUnavailable("the minute of this schedule may have been deleted")
        return None

    def _new(
        self,
        client: Client,
        request: ScheduleRequest,
        key: KeyRow,
        present: Resolved | None,
        chosen: Chosen | None,
    ) -> Definition:
        """The schedule to make after what was read. Raises Invalid."""
        assert request.key is not None
        before = None if present is None else key_mark(present.row.options)
        waiting = None if present is None or present.row.ended else present.row
        latest = asked_latest(request)
        if waiting is not None and before is not None and before.latest is not None:
            latest = before.latest
        if chosen is None:
            now = self._clock.wall_ms()
            made = self._create.drawn(client, request, now=now, latest=latest)
        else:
            now = chosen.at
            made = self._create.again(client, request, chosen.by(latest).schedule_id, now=now)
        mark = KeyMark(
            name=request.key,
            revision=max(key.base + 1, 1 if before is None else before.revision + 1, now),
            put_at=UnixMillis(now),
            kept_days=client.settings.retention_days + SLACK_DAYS,
            latest=latest,
        )
        options = encode_options(msgspec.structs.replace(decode_options(made.options), key=mark))
        replaced = None if waiting is None else waiting.schedule_id
        return msgspec.structs.replace(made, options=options, rescheduled_from=replaced)

    async def _replaced_at_once(
        self, client: Client, present: Resolved, new: Definition, key: KeyRow
    ) -> Definition | None:
        """The announced schedule as created, if one conditional write has replaced the present one by it."""
        mark = key_mark(new.options)
        if present.header is None or mark is None:
            return None
        at = await self._cancel.at_once(
            client.client_id,
            present.row,
            present.header,
            reason=RESCHEDULED_OTHERWISE,
            rescheduled_to=new.schedule_id,
        )
        if at is None:
            return None
        made = msgspec.structs.replace(new, created_at=at)
        await self._writer.keys.move(client.client_id, new.schedule_id, mark, base=key.base)
        await self._writer(made, consistency=client.settings.write_consistency)
        return made

    async def _take(self, new: Definition, holder: KeyHolder | None) -> bool:
        await self._writer.announce(new)
        mark = key_mark(new.options)
        assert mark is not None
        return await self._writer.keys.take(new.client_id, new.schedule_id, mark, after=holder)

    async def _replace(self, client_id: ClientId, present: Row, new: Definition) -> CancelResult | Revised:
        return await self._cancel.as_read(
            client_id, present, reason=RESCHEDULED_OTHERWISE, rescheduled_to=new.schedule_id
        )


def _tag(present: Resolved | None) -> str | None:
    return None if present is None else entity_tag(present.row.schedule_id, present.row.revision)


def _equal(new: Definition, row: Row) -> bool:
    """Whether the call of a waiting schedule is the same, at the same instant."""
    return (new.due, new.method, new.url, new.headers, new.body, new.label, new.ordering_key) == (
        row.due,
        row.method or "",
        row.url,
        row.headers,
        row.body,
        row.label,
        row.ordering_key,
    ) and _called(new.options) == _called(row.options)


def _called(options: str | None) -> object:
    """What of the options changes the call."""
    return msgspec.structs.replace(decode_options(options), key=None, trace=None)
