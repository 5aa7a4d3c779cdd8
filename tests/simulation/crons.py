"""Crons in a simulated world: the changes their owner makes, the fires that these require or permit, and the runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from membership.errors import StoreUnavailable
from membership.settings import MembershipSettings
from scheduler_service.domain.crons import Rule, parse_recurrence
from scheduler_service.domain.crons.expansion import offset_ms, rule_of
from scheduler_service.domain.crons.row import CRON_CLIENT, Cron, CronCallback, CronOptions, CronRun, CronState
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis, key_of, partition_of
from scheduler_service.domain.instants import parse_instant
from scheduler_service.domain.options import encode_headers
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.backfill_crons import BackfillCron
from scheduler_service.usecases.cron_request import CronDraft
from scheduler_service.usecases.crons import ChangeCrons
from scheduler_service.usecases.redeliver import RedeliverSchedule
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.secret_encryption import NoEncryption
from scheduler_service.usecases.trigger_crons import TriggerCron
from tests.simulation.receivers import Call
from tests.simulation.world import World

T = TypeVar("T")
SHOP = ClientId("shop")
CLAIMED_MS = 6_000
"""How long before its due a fire may have been claimed, after which no change of the cron stops it."""
CLOCK_LIMIT_MS = MembershipSettings().clock_limit_ms
"""An API process whose clock is further ahead refuses changes."""


@dataclass(frozen=True)
class Spell:
    """A rule from one change to the next. `rule` None: nothing fires. Instants are true wall time, except `asked_ms`:
    the time by a clock that was behind and believed.
    """

    asked_ms: int
    begins_ms: int
    rule: Rule | None
    offset: int = 0
    reaches_back: int = 0
    """How long before the change its first fires may lie: they were due before it, and by a spread are due after it."""


@dataclass
class Story:
    """All changes of one cron, in order."""

    spells: list[Spell] = field(default_factory=list)
    triggered: set[str] = field(default_factory=set)
    backfilled: set[int] = field(default_factory=set)
    """Nominal instants whose calls a backfill has promised."""

    def owed(self, until_ms: int) -> set[int]:
        """The nominal instants that must have become runs by `until_ms`, whatever happened."""
        owed: set[int] = set()
        for spell, end in self._with_ends(until_ms):
            if spell.rule is not None:
                fires = spell.rule.fires(spell.begins_ms - spell.reaches_back, end)
                owed.update(fire for fire in fires if fire + spell.offset < end)
        return owed

    def granted(self, until_ms: int, *, passed_ms: int = 0) -> set[int]:
        """The nominal instants that may have become runs. `passed_ms`: the latest time that a wrong clock showed before
        the last change.
        """
        granted: set[int] = set()
        for spell, ends_ms in self._with_ends(until_ms, claimed=CLAIMED_MS):
            end = max(ends_ms, passed_ms)
            if spell.rule is not None:
                # Fires of an active cron that were not expanded in time are expanded by its next rule.
                granted.update(spell.rule.fires(max(spell.asked_ms - 3_700_000, self.spells[0].asked_ms - 1_000), end))
        return granted

    def _with_ends(self, until_ms: int, *, claimed: int = 0) -> list[tuple[Spell, int]]:
        ends = [following.asked_ms for following in self.spells[1:]]
        if claimed:
            ends = [following.begins_ms + claimed for following in self.spells[1:]]
        return list(zip(self.spells, [*ends, until_ms], strict=True))


class Crons:
    """The crons of one client, by default `shop`."""

    def __init__(self, world: World, *, client_id: ClientId = SHOP) -> None:
        self.world = world
        self.client_id = client_id
        self.stories: dict[str, Story] = {}
        self.change = ChangeCrons(
            crons=world.api_storage.crons,
            catalog=Catalog(store=world.api_storage.clients, clock=world.api_clock),
            writer=world.writer,
            encryption=NoEncryption(),
            clock=world.api_clock,
        )
        resolve = ResolveSchedule(schedules=world.api_storage.schedules, writer=world.writer)
        self._backfill = BackfillCron(
            crons=world.api_storage.crons,
            writer=world.writer,
            resolve=resolve,
            redeliver=RedeliverSchedule(
                schedules=world.api_storage.schedules,
                attempts=world.api_storage.attempts,
                writer=world.writer,
                clock=world.api_clock,
            ),
            clock=world.api_clock,
        )
        self._trigger = TriggerCron(crons=world.api_storage.crons, writer=world.writer, clock=world.api_clock)

    async def put(
        self,
        cron_id: str,
        expression: str,
        *,
        timezone: str = "Etc/UTC",
        url: str = "http://receiver.test/",
        **options: object,
    ) -> Cron:
        draft = CronDraft(
            parse_recurrence(expression).text,
            timezone,
            CronCallback(method="POST", url=url, headers=encode_headers([]), body=b""),
            msgspec.convert(options, CronOptions),
        )
        return (
            await self._changed(
                cron_id, lambda: self.change.put(self.world.clients[self.client_id], CronId(cron_id), draft)
            )
        ).cron

    async def pause(self, cron_id: str) -> Cron:
        return await self._changed(cron_id, lambda: self.change.pause(self.client_id, CronId(cron_id)))

    async def resume(self, cron_id: str) -> Cron:
        return await self._changed(cron_id, lambda: self.change.resume(self.client_id, CronId(cron_id)))

    async def delete(self, cron_id: str) -> Cron:
        return await self._changed(cron_id, lambda: self.change.delete(self.client_id, CronId(cron_id)))

    async def trigger(self, cron_id: str) -> None:
        row = await self._until_answered(lambda: self._trigger(self.world.clients[self.client_id], CronId(cron_id)))
        self.stories[cron_id].triggered.add(str(row.schedule_id))

    async def backfill(self, cron_id: str, start: float, end: float) -> list[int]:
        """Backfill until every fire is answered; the nominal instants that will be called because of it."""
        promised: set[int] = set()
        while True:
            page = await self._until_answered(
                lambda: self._backfill(
                    self.world.clients[self.client_id],
                    CronId(cron_id),
                    start=UnixMillis(int(start)),
                    end=UnixMillis(int(end)),
                    dry_run=False,
                )
            )
            assert page.next is None
            promised |= {one.nominal_due for one in page.items if one.at is not None}
            unknown = {one.nominal_due for one in page.items if one.error is not None}
            self.stories[cron_id].backfilled |= promised | unknown
            if not unknown:
                self.world.note("owner", f"cron {cron_id} is backfilled: {len(page.items)} fires")
                return sorted(promised)
            await self.world.api_clock.sleep(1.0)

    async def _changed(self, cron_id: str, change: Callable[[], Awaitable[T]]) -> T:
        asked, behind_ms = self.world.now_ms(), self.world.behind_ms()
        answer = await self._until_answered(change)
        cron = answer if isinstance(answer, Cron) else answer.cron  # type: ignore[attr-defined]
        behind_ms = max(behind_ms, self.world.behind_ms())
        if behind_ms:
            # Its first fires are those after the present by a clock that was wrong.
            asked = min(asked, max(cron.changed_at, asked - behind_ms - CLOCK_LIMIT_MS))
        rule = rule_of(cron) if cron.state is CronState.ACTIVE else None
        story, offset = self.stories.setdefault(cron_id, Story()), offset_ms(cron)
        made_now = cron.created_at == cron.changed_at
        reaches_back = 0 if made_now else min(offset, story.spells[-1].offset)
        now = self.world.now_ms()
        # A change takes effect at the instant that the answering process's clock shows; until then the old rule's fires
        # are valid, although that clock is ahead.
        begins = max(now + 1, min(cron.changed_at, max(now, self.world.furthest_ms) + CLOCK_LIMIT_MS))
        story.spells.append(Spell(asked, begins, rule, offset, reaches_back))
        self.world.note("owner", f"cron {cron_id} is {cron.state} at revision {cron.revision}")
        return answer

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await self.world.api_clock.sleep(1.0)

    # What came of it.

    def calls(self, cron_id: str) -> dict[int, list[Call]]:
        """Calls by nominal instant, triggered runs left out."""
        found: dict[int, list[Call]] = {}
        for call in self.world.receiver.calls:
            if call.cron_id == cron_id and call.schedule_id not in self.stories[cron_id].triggered:
                found.setdefault(parse_instant(call.nominal_due), []).append(call)
        return found

    async def rows(self, cron_id: str) -> dict[int, Row]:
        """Rows of all runs, by nominal instant."""
        runs = await self.world.truth.crons.read_runs(
            self.client_id,
            CronId(cron_id),
            first=UnixMillis(self.world.now_ms() - 86_400_000 * 30),
            last=UnixMillis(self.world.now_ms() + 86_400_000),
        )
        return {run.nominal_due: row for run in runs if (row := await self._row(run)) is not None}

    async def _row(self, run: CronRun) -> Row | None:
        key = key_of(run.schedule_id)
        _, rows = await self.world.truth.schedules.read_rows(
            partition_of(self.client_id, run.schedule_id), [key], serial=True
        )
        return rows.get(key)

    async def read(self, cron_id: str) -> Cron:
        return (await self.world.truth.crons.read(self.client_id, [CronId(cron_id)], serial=True))[CronId(cron_id)]

    def owed(self, story: Story, until_ms: int) -> set[int]:
        """The nominal instants that must have become runs."""
        return story.owed(until_ms)

    async def check(self, *, missed_before_ms: int = 0) -> None:
        """No fire was missed, doubled or invented, up to half a minute ago. Fires before `missed_before_ms` may be
        skipped.
        """
        until = self.world.now_ms() - 30_000
        for cron_id, story in self.stories.items():
            calls, rows = self.calls(cron_id), await self.rows(cron_id)
            for nominal, made in calls.items():
                if len({call.schedule_id for call in made}) > 1:
                    raise self.world.violation(f"{cron_id}: the fire of {nominal} ran twice")
            # A call may be early by as much as clocks differ; this is judged where the call is received.
            granted = story.granted(self.world.now_ms() + CLOCK_LIMIT_MS, passed_ms=self.world.furthest_ms)
            granted |= story.backfilled
            if invented := calls.keys() - granted:
                raise self.world.violation(f"{cron_id}: nobody asked for {sorted(invented)}")
            for nominal in self.owed(story, until) - calls.keys():
                row = rows.get(nominal)
                if row is None or row.state != State.SKIPPED or nominal >= missed_before_ms:
                    raise self.world.violation(f"{cron_id}: the fire of {nominal} was missed: {row}")


async def with_crons(world: World, *, names: str = "ab", quota: int = 2, wakers: int = 4) -> Crons:
    """Nodes that own every poller, and a client with crons."""
    await world.add_client(SHOP, quota=quota)
    await world.add_client(CRON_CLIENT, quota=wakers)
    for name in names:
        world.add_node(name)
    await world.advance(20.0)
    return Crons(world)
