"""The scope of one client: its schedules, crons, dead letters, keys."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime
from functools import partial
from typing import Unpack

from minutehand.client import _calls as calls
from minutehand.client._async.bulk import AsyncBulk
from minutehand.client._async.destinations import AsyncDestinations
from minutehand.client._async.events import AsyncFeed
from minutehand.client._async.parts import AsyncPart, AsyncPerform, all_items, every
from minutehand.client._async.reconciliations import AsyncReconciliations
from minutehand.client._async.subscriptions import AsyncSubscriptions
from minutehand.client._audits import Audit, list_audits
from minutehand.client._backlog import Backlog, get_backlog
from minutehand.client._bulk import DEFAULT_BYTES, DEFAULT_IN_FLIGHT, DEFAULT_WAIT_SECONDS, MAX_ITEMS
from minutehand.client._calls import Operation, instant
from minutehand.client._filters import (
    ScheduleFilter,
    cancel_further,
    cancel_window,
    count_further,
    count_schedules,
    reschedule_further,
    reschedule_window,
)
from minutehand.client._forecast import Forecast, get_forecast
from minutehand.client._models import (
    BatchItem,
    Callback,
    CallbackUpdate,
    Client,
    Cron,
    CronOptions,
    CronRun,
    Key,
    LocalTime,
    MinuteBalance,
    NewCron,
    NewKey,
    NewSchedule,
    NewSigningSecret,
    Page,
    Poller,
    PublicKey,
    Schedule,
    ScheduleChanges,
    ScheduleOptions,
    SentCallback,
    SigningSecret,
)
from minutehand.client._outcomes import (
    Acknowledged,
    Attempt,
    AuditEntry,
    BackfillItem,
    CancelItem,
    CronChange,
    DeadLetter,
    Exchange,
    LetterFilters,
    LetterSelection,
    Redriven,
    RescheduleItem,
)
from minutehand.client._settings import OwnSettings
from minutehand.client._stories import Story, explain_schedule
from minutehand.client._usage import DayUsage, list_usage


class AsyncClientScope:
    """The scope of one client."""

    def __init__(self, perform: AsyncPerform, client_id: str) -> None:
        self.client_id = client_id
        self._perform = perform
        self.schedules = AsyncSchedules(perform, client_id)
        self.dead_letters = AsyncDeadLetters(perform, client_id)
        self.crons = AsyncCrons(perform, client_id)
        self.destinations = AsyncDestinations(perform, client_id)
        self.subscriptions = AsyncSubscriptions(perform, client_id)
        self.reconciliations = AsyncReconciliations(perform, client_id)
        self.keys = AsyncKeys(perform, client_id)
        self.signing_secrets = AsyncSigningSecrets(perform, client_id)

    async def get(self) -> Client:
        """The client itself: quota, limits, settings, state. For administrators and keys of scope `manage`."""
        return await self._perform(calls.get_client(self.client_id))

    async def change_settings(self, settings: OwnSettings, *, revision: int | None = None) -> Client:
        """Change the settings that are the client's own; what is left out stays. Each is replaced as a whole.
        `revision`: only if the client is at this one; otherwise PreconditionFailed."""
        return await self._perform(calls.change_settings(self.client_id, settings, revision=revision))

    async def pause(self, *, revision: int | None = None) -> Client:
        """Hold the client's calls and crons; creates are accepted. A suspension is independent of it. `revision`: as
        for `change_settings`."""
        return await self._perform(calls.pause_client(self.client_id, revision=revision))

    async def unpause(self, *, revision: int | None = None) -> Client:
        """Let calls and crons go on. What fell due meanwhile is called or skipped, by the client's late policy."""
        return await self._perform(calls.unpause_client(self.client_id, revision=revision))

    def audit_log(
        self,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        page_size: int | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """What was done to the client, by itself or by administrators, newest first, page by page, from `start` (24
        hours before `end`; at most 31 days) until before `end` (now)."""
        operation = calls.list_audit_log(self.client_id, start=start, end=end, page_size=page_size)
        return every(self._perform, operation)

    async def pollers(self) -> tuple[Poller, ...]:
        """The client's pollers: owner, how far each is settled, what is open since."""
        return (await self._perform(calls.list_pollers(self.client_id))).items

    async def trial_call(self, callback: Callback, *, timeout_seconds: float | None = None) -> Exchange:
        """Have one signed trial call sent now, as the client's schedules would be, and return the exchange. Nothing is
        stored; the receiver can tell it by `Minutehand-Trial: true`. Whatever the receiver does is a result, not an
        error."""
        return await self._perform(calls.trial_call(self.client_id, callback, timeout_seconds=timeout_seconds))

    async def usage(self, *, start: date | str | None = None, end: date | str | None = None) -> tuple[DayUsage, ...]:
        """Usage for each day by due, as last counted, from `start` (a week ago) until before `end` (tomorrow), 31 days
        at most. Days not yet counted are left out."""
        return (await self._perform(list_usage(self.client_id, start=start, end=end))).items

    async def backlog(self) -> Backlog:
        """What is overdue, by age, and why."""
        return await self._perform(get_backlog(self.client_id))

    async def forecast(self, *, start: datetime | str | None = None, end: datetime | str | None = None) -> Forecast:
        """What each minute is to call from `start` (now) until before `end` (24 hours later), 31 days at most."""
        return await self._perform(get_forecast(self.client_id, start=start, end=end))

    def events(
        self,
        *,
        after: str | None = None,
        since: datetime | str | None = None,
        pollers: str | None = None,
        page_size: int | None = None,
        follow: bool = True,
    ) -> AsyncFeed:
        """What became of the client's schedules, to iterate over: from a cursor on (`"earliest"`: all that is kept, a
        day at least), from an instant on, or from now on. It waits for what comes, and goes on by itself when the API
        does not answer for a while; without `follow` it ends with the last event that there is. An event may come again
        under its id. `pollers`: for clients with more than 64 of them, such as `64-127`."""
        return AsyncFeed(
            self._perform,
            self.client_id,
            after=after,
            since=since,
            pollers=pollers,
            page_size=page_size,
            follow=follow,
        )

    def audits(self, *, page_size: int | None = None) -> AsyncIterator[Audit]:
        """The results of audits of the client's books, newest first, page by page."""
        return every(self._perform, list_audits(self.client_id, page_size=page_size))

    def balance(
        self,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        page_size: int | None = None,
    ) -> AsyncIterator[MinuteBalance]:
        """The books minute by minute, page by page, from `start` (an hour ago) until before `end` (now), 24 hours at
        most. Minutes without schedules are left out."""
        operation = calls.list_balance(self.client_id, start=start, end=end, page_size=page_size)
        return every(self._perform, operation)


class AsyncKeys(AsyncPart):
    """A client's keys, for administrators and keys of scope `manage`."""

    async def create(
        self, *, scope: str | None = None, name: str | None = None, expires_at: datetime | str | None = None
    ) -> NewKey:
        """Make a key; it is shown this once. `scope`: read, write (None) or manage."""
        return await self._perform(calls.create_key(self._client_id, scope=scope, name=name, expires_at=expires_at))

    async def list(self) -> tuple[Key, ...]:
        return (await self._perform(calls.list_keys(self._client_id))).items

    async def revoke(self, key_id: str) -> None:
        await self._perform(calls.revoke_key(self._client_id, key_id))


class AsyncSigningSecrets(AsyncPart):
    """A client's signing secrets, for administrators and keys of scope `manage`."""

    async def create(self, *, scheme: str | None = None) -> NewSigningSecret:
        """Make a secret beside the existing ones; it is shown this once. `scheme`: v1 unless given, or v1a for a key
        pair, whose public key is no secret."""
        return await self._perform(calls.create_secret(self._client_id, scheme=scheme))

    async def list(self) -> tuple[SigningSecret, ...]:
        return (await self._perform(calls.list_secrets(self._client_id))).items

    async def delete(self, secret_id: str) -> None:
        await self._perform(calls.delete_secret(self._client_id, secret_id))

    async def public_keys(self) -> tuple[PublicKey, ...]:
        """Those of the client's active key pairs, which everybody may read. May be a minute behind."""
        return (await self._perform(calls.list_public_keys(self._client_id))).items


class AsyncSchedules(AsyncPart):
    """A client's schedules. `if_match`: the `etag` of a schedule that was seen before; the change is made only if the
    schedule is still as it was then. Otherwise PreconditionFailed."""

    async def create(
        self, callback: Callback, *, idempotency_key: str | None = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Create one call at `due` or after `delay_seconds`. When this returns, it is durable."""
        operation = calls.create_schedule(
            self._client_id, NewSchedule(callback=callback, **options), key=idempotency_key
        )
        return await self._perform(operation)

    async def put(
        self,
        key: str,
        callback: Callback,
        *,
        if_match: str | None = None,
        absent: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create one call under your own key, or replace the one that waits under it: exactly one of the two is called.

        `if_match`: only if the key names this schedule. `absent`: only if it names none that waits. `latest`: however
        often the call is replaced while it waits, it is due then at the latest; the first put's counts. Raises
        MinutehandApiError: in-flight (the present one is being called), precondition-failed."""
        operation = calls.put_schedule(
            self._client_id,
            key,
            NewSchedule(callback=callback, **options),
            if_match=if_match,
            absent=absent,
            key=idempotency_key,
        )
        return await self._perform(operation)

    async def get_by_key(self, key: str) -> Schedule:
        """The schedule that a key names."""
        return await self._perform(calls.get_schedule_by_key(self._client_id, key))

    async def cancel_by_key(self, key: str, *, if_match: str | None = None) -> Schedule:
        """Cancel the schedule that a key names. `if_match` takes its id too, for whatever it was updated to. Raises as
        `cancel` does."""
        return await self._perform(calls.cancel_schedule_by_key(self._client_id, key, if_match=if_match))

    async def create_batch(
        self, schedules: Sequence[NewSchedule], *, idempotency_key: str | None = None
    ) -> tuple[BatchItem, ...]:
        """Create up to 1,000 at once. Results in order: one may be refused and the next created."""
        return (await self._perform(calls.create_batch(self._client_id, schedules, key=idempotency_key))).items

    def bulk(
        self,
        *,
        batch_items: int = MAX_ITEMS,
        batch_bytes: int = DEFAULT_BYTES,
        wait_seconds: float = DEFAULT_WAIT_SECONDS,
        in_flight: int = DEFAULT_IN_FLIGHT,
    ) -> AsyncBulk:
        """Create many without waiting for each:

            async with schedules.bulk() as bulk:
                futures = [await bulk.add(NewSchedule(callback=callback, due=due)) for due in dues]
            refused = [item for future in futures if not (item := future.result()).created]

        A batch is sent when it is full (`batch_items`, `batch_bytes`) or its first item has waited for `wait_seconds`;
        at most `in_flight` batches are under way, and then `add` waits. Single faults raise nothing (see `BulkItem`);
        leaving the block waits for all answers. Raises ValueError for bounds that make no sense.
        """
        return AsyncBulk(
            self._perform,
            self._client_id,
            batch_items=batch_items,
            batch_bytes=batch_bytes,
            wait_seconds=wait_seconds,
            in_flight=in_flight,
        )

    async def get(self, schedule_id: str) -> Schedule:
        return await self._perform(calls.get_schedule(self._client_id, schedule_id))

    async def cancel(self, schedule_id: str, *, if_match: str | None = None) -> Schedule:
        """Cancel a schedule. When this returns, the receiver is not called any more; with `reason` in-doubt it may have
        been called before. Raises MinutehandApiError: in-flight, already-finished, or rescheduled
        (`problem.rescheduled_to` is called instead)."""
        return await self._perform(calls.cancel_schedule(self._client_id, schedule_id, if_match=if_match))

    async def cancel_many(self, schedule_ids: Sequence[str]) -> tuple[CancelItem, ...]:
        """Cancel up to 1,000 at once. Results in order. A rescheduled one is not followed to its successor."""
        return (await self._perform(calls.cancel_schedules(self._client_id, schedule_ids))).items

    async def cancel_window(
        self, *, start: datetime | str, end: datetime | str, **filters: Unpack[ScheduleFilter]
    ) -> tuple[CancelItem, ...]:
        """Cancel whatever has not ended, is due from `start` until before `end` and matches the filters. Schedules that
        were rescheduled to an instant outside are not included."""
        operation = cancel_window(self._client_id, start=start, end=end, filters=filters)
        return await all_items(self._perform, operation, partial(cancel_further, self._client_id))

    async def reschedule_window(
        self,
        *,
        start: datetime | str,
        end: datetime | str,
        shift_seconds: float | None = None,
        due: datetime | str | LocalTime | None = None,
        delay_seconds: float | None = None,
        window_seconds: int | None = None,
        idempotency_key: str | None = None,
        **filters: Unpack[ScheduleFilter],
    ) -> tuple[RescheduleItem, ...]:
        """Reschedule whatever waits, is due from `start` until before `end` and matches the filters: by `shift_seconds`
        (negative: earlier), or to `due` or `delay_seconds` from now, with `window_seconds` spread over so much behind
        it. Each moves once, although it may stay in the window: a repeat with the same arguments moves nothing again,
        and tells what was moved before; with another `idempotency_key` it is another request."""
        move = {
            "shift_seconds": shift_seconds,
            "due": due if isinstance(due, LocalTime) else instant(due),
            "delay_seconds": delay_seconds,
            "window_seconds": window_seconds,
        }
        operation = reschedule_window(
            self._client_id, start=start, end=end, move=move, filters=filters, key=idempotency_key
        )
        return await all_items(self._perform, operation, partial(reschedule_further, self._client_id))

    async def reschedule(
        self,
        schedule_id: str,
        *,
        due: datetime | str | LocalTime | None = None,
        delay_seconds: float | None = None,
        callback: Callback | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Schedule:
        """Call a schedule at another instant instead, under another id, which is returned; repeated with the same
        arguments, it returns the same one. Raises MinutehandApiError: in-flight, already-finished, in-doubt (it may
        have been called and is called again), or rescheduled (with other arguments; `problem.rescheduled_to` is called
        instead)."""
        operation = calls.reschedule_schedule(
            self._client_id,
            schedule_id,
            due=due,
            delay_seconds=delay_seconds,
            callback=callback,
            if_match=if_match,
            key=idempotency_key,
        )
        return await self._perform(operation)

    async def update(
        self,
        schedule_id: str,
        *,
        due: datetime | str | LocalTime | None = None,
        delay_seconds: float | None = None,
        callback: CallbackUpdate | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        **changes: Unpack[ScheduleChanges],
    ) -> Schedule:
        """Change a waiting schedule; what is not named stays. It keeps its id, unless its due or flow key changes, it
        is being retried, or it is a cron's run: then it goes on under the id of its successor, which is returned, and
        its key follows. Repeated with the same arguments, it returns the same one. Raises MinutehandApiError as
        `reschedule` does."""
        operation = calls.update_schedule(
            self._client_id,
            schedule_id,
            due=due,
            delay_seconds=delay_seconds,
            callback=callback,
            changes=changes,
            if_match=if_match,
            key=idempotency_key,
        )
        return await self._perform(operation)

    async def run(
        self, schedule_id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Schedule:
        """Call a waiting schedule now instead of at its due, once, however often it is asked for. Returns its successor
        and raises as `reschedule` does."""
        operation = calls.run_schedule(self._client_id, schedule_id, if_match=if_match, key=idempotency_key)
        return await self._perform(operation)

    async def preview(self, schedule_id: str) -> SentCallback:
        """The signed request that a call of it would make now, with credentials masked. Nothing is sent. Raises
        MinutehandApiError: rescheduled (`problem.rescheduled_to` is called instead)."""
        return await self._perform(calls.preview_schedule(self._client_id, schedule_id))

    async def redeliver(self, schedule_id: str, *, idempotency_key: str | None = None) -> Schedule:
        """Call again, under the same id, a schedule that was delivered, skipped or has failed. Raises
        MinutehandApiError: already-open, cancelled."""
        return await self._perform(calls.redeliver_schedule(self._client_id, schedule_id, key=idempotency_key))

    async def attempts(self, schedule_id: str) -> tuple[Attempt, ...]:
        """Every recorded attempt so far, in order."""
        return (await self._perform(calls.list_attempts(self._client_id, schedule_id))).items

    async def explain(self, schedule_id: str) -> Story:
        """What became of it, step by step, and why it was late."""
        return await self._perform(explain_schedule(self._client_id, schedule_id))

    def list(
        self,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        page_size: int | None = None,
        **filters: Unpack[ScheduleFilter],
    ) -> AsyncIterator[Schedule]:
        """By due, from `start` (now) until before `end` (24 hours later), page by page."""
        operation = calls.list_schedules(self._client_id, start=start, end=end, filters=filters, page_size=page_size)
        return every(self._perform, operation)

    async def count(
        self,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        **filters: Unpack[ScheduleFilter],
    ) -> int:
        """How many are due from `start` (now) until before `end` (24 hours later), with as many requests as that
        takes."""
        found = await self._perform(count_schedules(self._client_id, start=start, end=end, filters=filters))
        while found.next_cursor is not None:
            found = await self._perform(count_further(self._client_id, found.next_cursor))
        return found.count


class AsyncDeadLetters(AsyncPart):
    """A client's dead letters: schedules that failed for good."""

    def list(
        self, *, acknowledged: str | None = None, page_size: int | None = None, **filters: Unpack[LetterFilters]
    ) -> AsyncIterator[DeadLetter]:
        """By the instant of failure, page by page. `acknowledged`: "true" or "any"; left out, those that nobody has
        acknowledged. Filters: start, end, host, destination, status (503 or "5xx"), reason, error, label."""
        operation = calls.list_dead_letters(self._client_id, filters, acknowledged=acknowledged, page_size=page_size)
        return every(self._perform, operation)

    async def redeliver(self, **selection: Unpack[LetterSelection]) -> Redriven:
        """Call again what failed and has not been redelivered since: `letter_ids`, or those of a window that fit the
        filters of `list` and are not acknowledged, `limit` (100, at most 1,000) at a time; continue with the cursor of
        the answer alone. Repeating it calls nothing twice."""
        return await self._perform(calls.redeliver_dead_letters(self._client_id, selection))

    async def acknowledge(self, **selection: Unpack[LetterSelection]) -> Acknowledged:
        """Leave them out of `list` from now on; selected as for `redeliver`. Repeating it changes nothing."""
        return await self._perform(calls.acknowledge_dead_letters(self._client_id, selection))


class AsyncCrons(AsyncPart):
    """A client's crons: rules that make schedules."""

    async def put(
        self,
        cron_id: str,
        callback: Callback,
        *,
        expression: str,
        timezone: str,
        revision: int | None = None,
        absent: bool = False,
        **options: Unpack[CronOptions],
    ) -> Cron:
        """Create a cron, or replace its rule and callback. Repeating it changes nothing. `revision`: only if it still
        has this one; `absent`: only if there is none. Otherwise PreconditionFailed."""
        cron = NewCron(expression=expression, timezone=timezone, callback=callback, **options)
        return await self._perform(calls.put_cron(self._client_id, cron_id, cron, revision=revision, absent=absent))

    async def get(self, cron_id: str) -> Cron:
        return await self._perform(calls.get_cron(self._client_id, cron_id))

    def list(self, *, page_size: int | None = None) -> AsyncIterator[Cron]:
        """By id, page by page; deleted ones are left out."""
        return every(self._perform, calls.list_crons(self._client_id, page_size=page_size))

    async def pause(self, cron_id: str, *, note: str | None = None, revision: int | None = None) -> Cron:
        """No more fires until it is resumed. `revision`: as for `put`."""
        return await self._perform(calls.pause_cron(self._client_id, cron_id, note=note, revision=revision))

    async def resume(self, cron_id: str, *, revision: int | None = None) -> Cron:
        """Continue from now; fires missed during the pause are not made up for."""
        return await self._perform(calls.resume_cron(self._client_id, cron_id, revision=revision))

    async def pause_all(self, *, label: str, note: str | None = None, dry_run: bool = False) -> tuple[CronChange, ...]:
        """Pause all crons with this label; those that are paused keep their note. `dry_run`: only answer which ones."""
        return await self._change_all("pause", label, note, dry_run)

    async def resume_all(self, *, label: str, note: str | None = None, dry_run: bool = False) -> tuple[CronChange, ...]:
        """Resume all paused crons with this label; with a `note`, those that were paused with it."""
        return await self._change_all("resume", label, note, dry_run)

    async def _change_all(self, verb: str, label: str, note: str | None, dry_run: bool) -> tuple[CronChange, ...]:
        def page(cursor: str | None) -> Operation[Page[CronChange]]:
            return calls.change_crons(self._client_id, verb, label=label, note=note, dry_run=dry_run, cursor=cursor)

        return await all_items(self._perform, page(None), page)

    async def backfill(
        self, cron_id: str, *, start: datetime | str, end: datetime | str | None = None, dry_run: bool = False
    ) -> tuple[BackfillItem, ...]:
        """Make the fires from `start` until before `end` (None: now) that were not made, once each. `dry_run`: only
        answer which ones."""

        def page(cursor: str | None) -> Operation[Page[BackfillItem]]:
            return calls.backfill_cron(self._client_id, cron_id, start=start, end=end, dry_run=dry_run, cursor=cursor)

        return await all_items(self._perform, page(None), page)

    async def trigger(self, cron_id: str, *, idempotency_key: str | None = None) -> Schedule:
        """Run it once now, beside the rule. Raises MinutehandApiError: cron-changed, where a repeat finds no run and
        another cron."""
        return await self._perform(calls.trigger_cron(self._client_id, cron_id, key=idempotency_key))

    async def delete(self, cron_id: str, *, revision: int | None = None) -> Cron:
        """No more fires. Its runs stay readable."""
        return await self._perform(calls.delete_cron(self._client_id, cron_id, revision=revision))

    def runs(
        self,
        cron_id: str,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        order: str | None = None,
        page_size: int | None = None,
    ) -> AsyncIterator[CronRun]:
        """Past and planned runs by nominal instant, page by page, from `start` (a day ago) until before `end` (a day
        ahead), 31 days at most. `order` newest: runs that have a schedule, the last ones first, of the 30 days
        before `end` (now; a later one lists runs that wait, too)."""
        operation = calls.list_runs(self._client_id, cron_id, start=start, end=end, order=order, page_size=page_size)
        return every(self._perform, operation)
