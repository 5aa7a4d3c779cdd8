"""Load: the rows of a bulk load become schedules, by the rules of a create, any number of times.

    item -> draft (every rule, every fault) -> poller and id (the load's) -> does it exist? -> place -> acknowledged
                                                                             (see below)

It differs from a create in this:
- Ids, pollers and creation instants follow from the load and the item's key, so the same item is the same row again.
- A due must be `LOAD_AHEAD_MS` ahead when it is judged, right before the row is sent. Requests that storage does not
  answer are repeated for `REPEATED_FOR_SECONDS` at most, so a row is acknowledged long before its minute; the ten
  minutes also cover the difference between the loader's clock and the nodes'. Should all of that fail,
  `schedule_writer` applies the late rule. So no due in the past is loaded: the row to store would be another one in
  every run.
- A schedule has no key of the client's own (`NOT_LOADED`): a put under a key replaces what waits under it, which takes
  conditional writes, and would replace more in every run.
- In a run that is not the load's first, each row is read before it is written. A row with the expected values is left
  alone, whatever its due and however the rules have changed since; one with other values is refused, because a
  definition is never overwritten. The first run reads only rows whose due alone is wrong: an earlier try of the same
  task may have written them in time.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.bulk_loads import BulkLoad
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import FieldError, Invalid, SecretLocked
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.quotas import derived_poller, pinned_poller
from scheduler_service.domain.schedules import Definition, Row
from scheduler_service.domain.spread import point_of
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.schedule_request import (
    CallbackPolicy,
    Draft,
    ScheduleRequest,
    draft,
    named_instant,
    redraft,
    refuse_acks,
    unjudged_due,
)
from scheduler_service.usecases.schedule_writer import ScheduleWriter

LOAD_AHEAD_MS = 600_000
"""How far ahead a due must be when its row is sent."""
REPEATED_FOR_SECONDS = 120.0
"""How long rows that storage does not acknowledge are repeated."""
CALLBACKS_REMEMBERED = 4096
"""Ordering keys whose poller is cached."""

NOT_LOADED: Final[Mapping[str, str]] = {
    "delay_seconds": "differs in every run; give the due",
    "key": "is not for loads: each run would replace what was put under it; put such schedules with the API",
    "on_success": "is not for loads; a subscription tells of all ends",
    "on_failure": "is not for loads; a subscription tells of all ends",
    "succeed_by": "is not for loads: each deadline is a row beside the schedule's; create such schedules with the API",
    "succeed_within_seconds": "is not for loads, as succeed_by is not",
    "latest": "is only for schedules with a key, which can't be loaded",
    "ack_within_seconds": "is not for loads: create schedules that receivers acknowledge later with the API",
}
"""Fields of a create that a row can't have, and why."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_NO_ACK = refuse_acks(NOT_LOADED["ack_within_seconds"])
_COMPARED = ("method", "url", "headers", "body", "options", "label", "ordering_key", "created_at")
_DUE = "/due"

SLOW_SECONDS = 1.0
"""An answer to a chunk that takes longer means that storage is overloaded."""
_SLOWEST = 64
_FASTER = 1.1


class LoadThrottle:
    """Limits the rate of a bulk load, and lowers it while storage is slow.

        answers in time   a tenth faster, up to the rate
        slow answers      half as fast, down to a 64th of the rate
        no answer         the same, and a pause that doubles from try to try

    (Additive increase would take minutes to recover the rate after one slow answer; here it is some seven chunks.)

    For one task. `rate`: rows a second at most.
    """

    def __init__(self, *, clock: Clock, rate: float) -> None:
        if rate <= 0:
            raise ValueError("the rate of a load must be above 0")
        self._clock = clock
        self._most = rate
        self._free_at = clock.monotonic()
        self.rate = rate
        """Rows a second right now."""

    async def take(self, count: int) -> None:
        """Return when this many rows may be sent. Unused time is not saved up."""
        now = self._clock.monotonic()
        # Reserved before the sleep, so that concurrent callers queue up instead of starting together.
        begin = max(self._free_at, now)
        self._free_at = begin + count / self.rate
        if begin > now:
            await self._clock.sleep(begin - now)

    def answered(self, seconds: float) -> None:
        """Take in the time that an answer took."""
        if seconds > SLOW_SECONDS:
            self.unanswered()
        else:
            self.rate = min(self._most, self.rate * _FASTER)

    def unanswered(self) -> None:
        self.rate = max(self._most / _SLOWEST, self.rate / 2)


class Item(NamedTuple):
    """One row of the input: its key, and its request or why that can't be read."""

    key: str
    request: ScheduleRequest | Invalid


class Loaded(StrEnum):
    """The result of a valid item."""

    ADDED = "added"
    PRESENT = "present"


Result: TypeAlias = Loaded | MinutehandError
"""The result of one item; an error says why there is no such row, or that another one has its id."""


class Judged(NamedTuple):
    """The row that an item would become, as far as it can be derived, and its faults."""

    definition: Definition | None
    faults: list[FieldError]


class JudgeItems:
    """Derives the rows of a load. Writes and reads nothing."""

    def __init__(self, *, policy: CallbackPolicy, clock: Clock, ahead_ms: int = LOAD_AHEAD_MS) -> None:
        self._check_url = policy.check_url
        self._check_destination = policy.destinations.check
        self._bounds = policy.bounds
        self._encryption = policy.encryption
        self._pinned_poller = lru_cache(maxsize=CALLBACKS_REMEMBERED)(pinned_poller)
        self._clock = clock
        self._ahead_ms = ahead_ms

    def __call__(self, client: Client, load: BulkLoad, items: Sequence[Item]) -> list[Judged]:
        """The rows and faults of these items, judged now."""
        now = self._clock.wall_ms()
        return [self._judged(client, load, item.key, item.request, now) for item in items]

    def faults(self, client: Client, request: ScheduleRequest) -> list[FieldError]:
        """All faults of a request."""
        now = self._clock.wall_ms()
        try:
            self._draft(client, request, now=now, point=0)
        except Invalid as invalid:
            return invalid.errors
        return []

    def compared(self, definition: Definition, row: Row) -> Result:
        """The result of an item whose row exists already."""
        if row.revision is not None:
            # It was loaded and revised since; what it was loaded with is not read.
            return Loaded.PRESENT
        different = [name for name in _COMPARED if getattr(definition, name) != _stored(row, name)]
        try:
            if "headers" in different and self._same_headers(definition, row):
                different.remove("headers")
        except SecretLocked as error:
            return error
        if not different:
            return Loaded.PRESENT
        return Invalid([FieldError("", f"was loaded before with another {', '.join(different)}; it stays as it was")])

    def _same_headers(self, definition: Definition, row: Row) -> bool:
        """Different text may be the same headers: encrypted since, or under another key. Raises SecretLocked."""
        wanted, found = (
            self._encryption.open_headers(definition.client_id, one.headers or "") for one in (definition, row)
        )
        return wanted == found

    def _judged(self, client: Client, load: BulkLoad, key: str, request: ScheduleRequest | Invalid, now: int) -> Judged:
        if isinstance(request, Invalid):
            return Judged(None, request.errors)
        soonest = now + self._ahead_ms
        point = point_of(f"{load.client_id}/{load.load_id}/{key}")
        faults: list[FieldError] = []
        try:
            drawn = self._draft(client, request, now=now, point=point)
        except Invalid as invalid:
            faults = invalid.errors
        else:
            if request.due is not None and drawn.due >= soonest:
                return Judged(self._definition(load, key, drawn), faults)
        if request.due is None:
            return Judged(None, [*_besides_due(faults), FieldError(_DUE, "is required; a delay differs in every run")])
        if request.delay_seconds is not None or named_instant(request.due, []) is None:
            return Judged(None, faults)
        asked, due = unjudged_due(request, now=0, point=point)
        if due < soonest:
            detail = f"is less than {self._ahead_ms / 60_000:g} minutes ahead; it is {format_instant(now)} now"
            faults = [*_besides_due(faults), FieldError(_DUE, detail)]
        if asked < 0:
            return Judged(None, faults)
        return Judged(self._definition(load, key, redraft(request, due=due, now=now)), faults)

    def _draft(self, client: Client, request: ScheduleRequest, *, now: int, point: int) -> Draft:
        refused = ("key", "on_success", "on_failure", "succeed_by", "succeed_within_seconds")
        own = [FieldError(f"/{name}", NOT_LOADED[name]) for name in refused if getattr(request, name) is not None]
        try:
            drawn = draft(
                request,
                settings=client.settings,
                check_url=self._check_url,
                now=now,
                point=point,
                bounds=self._bounds,
                check_destination=self._check_destination(client.client_id),
                check_ack=_NO_ACK,
            )
        except Invalid as invalid:
            raise Invalid([*invalid.errors, *own]) from None
        if own:
            raise Invalid(own)
        return drawn

    def _definition(self, load: BulkLoad, key: str, drawn: Draft) -> Definition:
        client_id = load.client_id
        if (pin := drawn.pin) is None:
            poller_id = derived_poller(client_id, key, pollers=load.pollers)
        else:
            poller_id = self._pinned_poller(client_id, pin, quota=load.pollers)
        return Definition(
            client_id=client_id,
            poller_id=poller_id,
            due=drawn.due,
            schedule_id=load.schedule_id(key=key, due=drawn.due, poller_id=poller_id),
            method=drawn.method,
            url=drawn.url,
            headers=self._encryption.seal_headers(client_id, drawn.headers),
            body=drawn.body,
            options=drawn.options,
            label=drawn.label,
            ordering_key=drawn.ordering_key,
            nominal_due=drawn.nominal_due,
            created_at=load.started_at,
        )


class LoadSchedules:
    """Makes the rows of loads durable, for clients that the caller has looked up and found active."""

    def __init__(
        self, *, judge: JudgeItems, writer: ScheduleWriter, schedules: ScheduleStore, clock: Clock, pace: LoadThrottle
    ) -> None:
        self._judge = judge
        self._writer = writer
        self._schedules = schedules
        self._clock = clock
        self._pace = pace

    async def __call__(self, client: Client, load: BulkLoad, items: Sequence[Item], *, again: bool) -> list[Result]:
        """The result of each item, in order; the rows of valid ones are durable. `again`: not the load's first run.

        Raises StoreUnavailable where storage did not answer for too long: any of the rows may exist, or not.
        """
        await self._pace.take(len(items))
        judged = self._judge(client, load, items)
        results: list[Result | None] = [Invalid(one.faults) if one.faults else None for one in judged]
        looked_for = [
            (position, one.definition)
            for position, one in enumerate(judged)
            if one.definition is not None and (again or (one.faults and not _besides_due(one.faults)))
        ]
        present = await self._present([definition for _, definition in looked_for]) if looked_for else {}
        for position, definition in looked_for:
            row = present.get((definition.partition, definition.key))
            if row is not None:
                results[position] = self._judge.compared(definition, row)
        sent = [
            (position, one.definition)
            for position, one in enumerate(judged)
            if results[position] is None and one.definition is not None
        ]
        placed = await self._placed(client, [definition for _, definition in sent])
        for (position, _), result in zip(sent, placed, strict=True):
            results[position] = result
        return [result for result in results if result is not None]

    async def _present(self, definitions: Sequence[Definition]) -> Mapping[tuple[Partition, RowKey], Row]:
        keys: dict[Partition, list[RowKey]] = {}
        for definition in definitions:
            keys.setdefault(definition.partition, []).append(definition.key)

        async def read(partition: Partition) -> tuple[Partition, Mapping[RowKey, Row]]:
            _, rows = await self._patiently_read(partition, keys[partition])
            return partition, rows

        found = await concurrently(read, keys)
        return {(partition, key): row for partition, rows in found for key, row in rows.items() if row.defined}

    async def _patiently_read(
        self, partition: Partition, keys: Sequence[RowKey]
    ) -> tuple[object, Mapping[RowKey, Row]]:
        until, pause = self._clock.monotonic() + REPEATED_FOR_SECONDS, _FIRST_PAUSE
        while True:
            try:
                return await self._schedules.read_rows(partition, keys)
            except StoreUnavailable:
                pause = await self._pause(pause, until)

    async def _placed(self, client: Client, definitions: Sequence[Definition]) -> list[Result]:
        results: list[Result] = [Loaded.ADDED] * len(definitions)
        waiting = list(range(len(definitions)))
        until, pause = self._clock.monotonic() + REPEATED_FOR_SECONDS, _FIRST_PAUSE
        while waiting:
            begun = self._clock.monotonic()
            errors = await self._writer.many(
                [definitions[position] for position in waiting], consistency=client.settings.write_consistency
            )
            unanswered = []
            for position, error in zip(waiting, errors, strict=True):
                if isinstance(error, StoreUnavailable):
                    unanswered.append(position)
                elif error is not None:
                    results[position] = error
            if waiting := unanswered:
                pause = await self._pause(pause, until)
            else:
                self._pace.answered(self._clock.monotonic() - begun)
        return results

    async def _pause(self, seconds: float, until: float) -> float:
        """Pause before another try; answers the length of the next pause. Raises StoreUnavailable where time is up."""
        self._pace.unanswered()
        if self._clock.monotonic() + seconds > until:
            raise StoreUnavailable(f"Cassandra gave no answer for {REPEATED_FOR_SECONDS:g} seconds.")
        await self._clock.sleep(seconds)
        return min(2 * seconds, _LONGEST_PAUSE)


def _besides_due(faults: Sequence[FieldError]) -> list[FieldError]:
    return [fault for fault in faults if fault.pointer not in (_DUE, "/delay_seconds")]


def _stored(row: Row, name: str) -> object:
    value = getattr(row, name)
    return b"" if name == "body" and value is None else value
