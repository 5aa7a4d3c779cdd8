"""Change: a cron is created, given another rule, paused, resumed, deleted.

    read -> decide -> write IF it is as read (rejected: decide again) -> place the wake-up -> answered

Every change raises the revision and makes the cron due at once. Its wake-up cancels unclaimed children of older
revisions and expands the rule again; if the wake-up is lost, the cron stays due and a search finds it.

Where a cron already is as requested, its revision and its children stay, but a conditional write is made all the same
(`confirmations`). An earlier change whose caller got no answer may still be in flight; after the confirmation it can't
take effect any more, because it expects the cron as it was before. Refusals are preceded by a serial read, which
completes writes that replicas have accepted. So an answer stays true. The exception is a cron that does not exist: it
can't be confirmed, so a create in flight may take effect after a deletion was answered "not found".

A change takes effect from now on: fires that were due before stay as they are. Fires of an active cron that were not
expanded in time (an outage, a suspension) are still owed, and run under the new rule; those of a pause are not.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple

import msgspec

from membership.conditional import APPLIED, Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.expansion import is_due, offset_ms, rule_of, wake_up
from scheduler_service.domain.crons.row import (
    CRON_CLIENT,
    FIRST_REVISION,
    NO_CALLBACK,
    Cron,
    CronCallback,
    CronPause,
    CronState,
)
from scheduler_service.domain.errors import (
    Conflict,
    FieldError,
    Invalid,
    InvalidRule,
    NotFound,
    PreconditionFailed,
    SecretLocked,
)
from scheduler_service.domain.ids import ClientId, CronId, PollerId, UnixMillis
from scheduler_service.domain.options import run_key
from scheduler_service.domain.ports import CronStore, SecretEncryption
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.quotas import pinned_poller
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.admission import AdmitCreates
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.cron_counts import CronCounts
from scheduler_service.usecases.cron_request import CronDraft, CronRequest, draft_cron
from scheduler_service.usecases.end_receivers import named_destinations
from scheduler_service.usecases.reading_steps import HasRead, uncounted
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.schedule_writer import ScheduleWriter

MAX_CRON_TURNS = 20
"""Consecutive rejections after which a change fails: other callers keep changing this cron."""


class Changed(NamedTuple):
    """`created`: there was no such cron, or it was deleted."""

    cron: Cron
    created: bool


class ChangeCrons:
    """Changes crons of clients that the caller has looked up. Every method may be repeated."""

    def __init__(
        self,
        *,
        crons: CronStore,
        catalog: Catalog,
        writer: ScheduleWriter,
        encryption: SecretEncryption,
        clock: Clock,
    ) -> None:
        self._crons = crons
        self._counts = CronCounts(crons=crons, clock=clock)
        self._catalog = catalog
        self._writer = writer
        self._encryption = encryption
        self._clock = clock

    async def put(
        self,
        client: Client,
        cron_id: CronId,
        draft: CronDraft,
        *,
        has_read: HasRead = uncounted,
        precondition: Precondition = NO_PRECONDITION,
    ) -> Changed:
        """Create or replace; a paused cron stays paused. A repeat changes nothing. `has_read` hears what was read to
        count the client's crons. Raises Conflict (too-many-crons), PreconditionFailed, StoreUnavailable."""
        before = (await self._crons.read(client.client_id, [cron_id])).get(cron_id)
        reservation: AbstractAsyncContextManager[None] = nullcontext()
        if before is None or before.state is CronState.DELETED:
            reservation = self._counts.reserve(client, again=before is not None, has_read=has_read)

        def step(known: Cron | None, now: UnixMillis) -> Cron:
            if known is None or known.state is CronState.DELETED:
                precondition.check(None)
                return self._new(client, cron_id, draft, known=known, now=now)
            if (known.expression, known.timezone, self._opened(known), known.options) == draft:
                # Its answer may have been lost, so a repeat is not refused.
                return known
            precondition.check(str(known.revision))
            changed = msgspec.structs.replace(
                known,
                expression=draft.expression,
                timezone=draft.timezone,
                callback=self._sealed(client.client_id, draft.callback),
                options=draft.options,
                poller_id=_poller(client, cron_id, draft),
            )
            # A finished cron may have further fires under the new rule.
            finished = known.state is CronState.FINISHED
            return _begun_again(known, changed, CronState.ACTIVE if finished else known.state, now)

        async with reservation:
            known, cron = await self._change_from(before, client.client_id, cron_id, step)
        return Changed(cron, created=known is None or known.state is CronState.DELETED)

    async def pause(
        self,
        client_id: ClientId,
        cron_id: CronId,
        *,
        note: str | None = None,
        keep_note: bool = False,
        precondition: Precondition = NO_PRECONDITION,
    ) -> Cron:
        """The note of a cron that is paused already is replaced by another one, unless `keep_note`. Raises NotFound;
        Conflict for a finished cron; PreconditionFailed, StoreUnavailable."""

        def step(known: Cron | None, now: UnixMillis) -> Cron:
            cron = existing(known, cron_id)
            if cron.state is CronState.FINISHED:
                raise Conflict("cron-finished", f"cron {cron_id!r} has had its last fire", state=cron.state)
            if cron.state is CronState.PAUSED:
                noted = None if cron.pause is None else cron.pause.note
                if keep_note or note is None or note == noted:
                    return cron
            pause = CronPause(at=now, revision=cron.revision + 1, note=note)
            changed = msgspec.structs.replace(cron, pause=pause)
            return _begun_again(cron, changed, CronState.PAUSED, now)

        return (await self._change(client_id, cron_id, step, precondition)).cron

    async def resume(
        self, client_id: ClientId, cron_id: CronId, *, precondition: Precondition = NO_PRECONDITION
    ) -> Cron:
        """From now on: fires of the pause are not made up for. Raises NotFound, PreconditionFailed,
        StoreUnavailable."""

        def step(known: Cron | None, now: UnixMillis) -> Cron:
            cron = existing(known, cron_id)
            return cron if cron.state is not CronState.PAUSED else _begun_again(cron, cron, CronState.ACTIVE, now)

        return (await self._change(client_id, cron_id, step, precondition)).cron

    async def expand_again(self, client_id: ClientId, cron_id: CronId) -> Cron:
        """Withdraw the fires of an active cron that are ahead and expand it now, by the zone data that nodes have; a
        paused or finished one stays as it is. Raises NotFound, StoreUnavailable."""
        known = existing((await self._crons.read(client_id, [cron_id], serial=True)).get(cron_id), cron_id)
        now = self._clock.wall_ms()
        placed: list[UnixMillis] = []
        if known.expanded_through > now - offset_ms(known):
            first, last = UnixMillis(now - offset_ms(known) + 1), known.expanded_through
            runs = await self._crons.read_runs(client_id, cron_id, first=first, last=last)
            placed = [run.nominal_due for run in runs if not run.triggered]

        def step(cron: Cron | None, now: UnixMillis) -> Cron:
            cron = existing(cron, cron_id)
            if cron.state is not CronState.ACTIVE:
                return cron
            again = _begun_again(cron, cron, CronState.ACTIVE, now)
            if cron.revision == known.revision and cron.expanded_through == known.expanded_through:
                # Its rule does not tell which fires were counted: other zone data placed them.
                ahead = sum(nominal > again.expanded_through for nominal in placed)
                again = msgspec.structs.replace(again, fires=cron.fires - ahead)
            return again

        return (await self._change_from(known, client_id, cron_id, step)).cron

    async def delete(
        self, client_id: ClientId, cron_id: CronId, *, precondition: Precondition = NO_PRECONDITION
    ) -> Cron:
        """Its runs stay, its callback is erased at once, its row after the client's retention. Raises NotFound (not for
        one that was deleted before), PreconditionFailed, StoreUnavailable."""

        def step(known: Cron | None, now: UnixMillis) -> Cron:
            if known is None:
                raise NotFound(f"there is no cron {cron_id!r}")
            if known.state is CronState.DELETED:
                return known
            # The callback may hold credentials; children that are placed carry their own copy.
            emptied = msgspec.structs.replace(known, callback=NO_CALLBACK)
            return _begun_again(known, emptied, CronState.DELETED, now)

        standing = self._counts.standing(client_id)
        known, cron = await self._change(client_id, cron_id, step, precondition)
        if known is not None and known.state is not CronState.DELETED:
            self._counts.deleted(client_id, standing)
        return cron

    def _new(self, client: Client, cron_id: CronId, draft: CronDraft, *, known: Cron | None, now: UnixMillis) -> Cron:
        """A cron that was deleted before continues its revisions, so that nothing placed before the deletion is taken
        for its own."""
        revision = FIRST_REVISION if known is None else known.revision + 1
        return Cron(
            client_id=client.client_id,
            cron_id=cron_id,
            expression=draft.expression,
            timezone=draft.timezone,
            callback=self._sealed(client.client_id, draft.callback),
            options=draft.options,
            state=CronState.ACTIVE,
            revision=revision,
            poller_id=_poller(client, cron_id, draft),
            created_at=now,
            changed_at=now,
            expanded_through=now,
            fires=0,
            swept=revision - 1,
            wake_at=now,
            confirmations=0 if known is None else known.confirmations,
        )

    def _sealed(self, client_id: ClientId, callback: CronCallback) -> CronCallback:
        return msgspec.structs.replace(callback, headers=self._encryption.seal_headers(client_id, callback.headers))

    def _opened(self, cron: Cron) -> CronCallback | None:
        """None where it can't be decrypted: it then counts as different, and can be replaced."""
        try:
            headers = self._encryption.open_headers(cron.client_id, cron.callback.headers)
        except SecretLocked:
            return None
        return msgspec.structs.replace(cron.callback, headers=headers)

    async def _change(
        self,
        client_id: ClientId,
        cron_id: CronId,
        step: Callable[[Cron | None, UnixMillis], Cron],
        precondition: Precondition,
    ) -> "_Change":
        def checked(known: Cron | None, now: UnixMillis) -> Cron:
            wanted = step(known, now)
            if known is not None and wanted is not known:
                # As for a put: the answer to an equal request may have been lost.
                precondition.check(str(known.revision))
            return wanted

        before = (await self._crons.read(client_id, [cron_id])).get(cron_id)
        return await self._change_from(before, client_id, cron_id, checked)

    async def _change_from(
        self, known: Cron | None, client_id: ClientId, cron_id: CronId, step: Callable[[Cron | None, UnixMillis], Cron]
    ) -> "_Change":
        wakers = await self._catalog.client(CRON_CLIENT)
        sure = False  # whether `known` was read serially
        for _ in range(MAX_CRON_TURNS):
            now = UnixMillis(self._clock.wall_ms())
            try:
                wanted = step(known, now)
            except (Conflict, NotFound, PreconditionFailed):
                if sure:
                    raise
                known, sure = (await self._crons.read(client_id, [cron_id], serial=True)).get(cron_id), True
                continue
            if known is not None and wanted.revision == known.revision:
                answer = await self._confirm(known, sure=sure)
            else:
                expected = None if known is None else known.revision
                answer = await self._crons.write(wanted, expected_revision=expected)
            match answer:
                case Applied():
                    # An earlier identical request may have failed before it placed the wake-up.
                    if is_due(wanted, now):
                        await self._writer(wake_up(wanted, at=now, quota=wakers.poller_quota))
                    return _Change(known, wanted)
                case Rejected(current=current):
                    known, sure = current, True
                case Unknown():
                    raise StoreUnavailable("storage did not say whether the cron was changed; repeat the request")
        raise StoreUnavailable("others keep changing this cron; repeat the request")

    async def _confirm(self, known: Cron, *, sure: bool) -> Answer[Cron | None]:
        answer = await self._crons.confirm(known)
        if sure and isinstance(answer, Rejected) and answer.current is not None:
            # Another caller has confirmed it since it was read; one confirmation serves all concurrent callers.
            return APPLIED if answer.current.revision == known.revision else answer
        return answer


class _Change(NamedTuple):
    known: Cron | None
    cron: Cron


def _poller(client: Client, cron_id: CronId, draft: CronDraft) -> PollerId:
    """The poller of a cron's children: that of their flow key or ordering key, if they have one."""
    pin = draft.options.pin
    if pin is None:
        pin = cron_id if draft.options.policy == "allow" else run_key(cron_id)
    return pinned_poller(client.client_id, pin, quota=client.poller_quota)


def existing(known: Cron | None, cron_id: CronId) -> Cron:
    if known is None or known.state is CronState.DELETED:
        raise NotFound(f"there is no cron {cron_id!r}")
    return known


def paused_by_failures(cron: Cron, *, note: str, now: UnixMillis) -> Cron:
    """An active cron as it is after its last runs have failed."""
    pause = CronPause(at=now, revision=cron.revision + 1, by="failures", note=note)
    return _begun_again(cron, msgspec.structs.replace(cron, pause=pause), CronState.PAUSED, now)


def paused_by_receiver(cron: Cron, *, note: str, now: UnixMillis) -> Cron:
    """An active cron as it is after the receiver of a fire has stopped it: as after a request."""
    pause = CronPause(at=now, revision=cron.revision + 1, note=note)
    return _begun_again(cron, msgspec.structs.replace(cron, pause=pause), CronState.PAUSED, now)


def _begun_again(known: Cron, changed: Cron, state: CronState, now: UnixMillis) -> Cron:
    """The next revision. Counted fires that are still to come are uncounted; the wake-up counts those that it can't
    cancel."""
    through = max(now - offset_ms(known), known.created_at)
    if known.state is CronState.ACTIVE:
        through = min(through, known.expanded_through)
    revision, pause = known.revision + 1, changed.pause
    return msgspec.structs.replace(
        changed,
        state=state,
        revision=revision,
        pause=None
        if pause is None or state is not CronState.PAUSED
        else msgspec.structs.replace(pause, revision=revision),
        changed_at=now,
        expanded_through=UnixMillis(through),
        fires=known.fires - _fires_between(known, through, known.expanded_through),
        wake_at=now,
    )


def _fires_between(cron: Cron, after: int, until: int) -> int:
    """How many counted fires of an active cron lie after `after`. 0 for a rule that this program does not understand:
    such a cron can still be changed and deleted, and fires too seldom rather than too often."""
    if until <= after:
        return 0
    try:
        return sum(1 for _ in rule_of(cron).fires(after, until))
    except InvalidRule:
        # A cron that this program can't read can still be replaced or stopped.
        return 0


class RequestCrons:
    """Request: changes of crons that may lead to calls.

        admitted (client, clock) -> draft (every rule, every fault) -> change

    Pausing and deleting lead to none, so callers use `ChangeCrons` for them.

    For clients that the caller has looked up. Every method raises what `admit` does.
    """

    def __init__(
        self,
        *,
        change: ChangeCrons,
        admit: AdmitCreates,
        policy: CallbackPolicy,
        clock: Clock,
    ) -> None:
        self.admit = admit
        """Call it before a body is read."""
        self._change = change
        self._policy = policy
        self._check_url = policy.check_url
        self._bounds = policy.bounds
        self._ack_rule = policy.check_ack
        self._destinations = policy.destinations
        self._admit_deadline = policy.admit_deadline
        self._clock = clock

    async def put(
        self,
        client: Client,
        cron_id: CronId,
        request: CronRequest,
        *,
        has_read: HasRead = uncounted,
        precondition: Precondition = NO_PRECONDITION,
    ) -> Changed:
        """As `ChangeCrons.put`. Raises Invalid, ContentTooLarge, Conflict (older-nodes) too."""
        self.admit(client)
        named = named_destinations(request.callback.destination, request.on_success, request.on_failure)
        await self._destinations.look_up(client.client_id, named)
        if request.succeed_within_seconds is not None:
            self._admit_deadline()
        if request.callback.ack is not None:
            await self._destinations.look_at_kinds(client.client_id, [request.callback.destination])
        draft = self._draft(client, request)
        return await self._change.put(client, cron_id, draft, has_read=has_read, precondition=precondition)

    def faults(self, client: Client, request: CronRequest) -> list[FieldError]:
        """All faults of a request. Stores nothing."""
        try:
            self._draft(client, request)
        except Invalid as invalid:
            return invalid.errors
        return []

    def _draft(self, client: Client, request: CronRequest) -> CronDraft:
        self._policy.admit_ends(request)
        now = self._clock.wall_ms()
        return draft_cron(
            request,
            settings=client.settings,
            check_url=self._check_url,
            now=now,
            bounds=self._bounds,
            check_destination=self._destinations.check(client.client_id),
            check_ack=self._ack_rule(client.client_id),
        )

    async def resume(self, client: Client, cron_id: CronId, *, precondition: Precondition = NO_PRECONDITION) -> Cron:
        """Raises NotFound, PreconditionFailed, StoreUnavailable too."""
        self.admit(client)
        return await self._change.resume(client.client_id, cron_id, precondition=precondition)
