"""The reading half of a membership agent: reads the members, and decides deaths.

Reads of the members are sequential; what follows from one (reading an incarnation's record, declaring a death) runs
beside them, so that a slow conditional write never makes a gap in the reads."""

import logging
from collections.abc import Callable, Mapping
from typing import assert_never

from membership.clocks import ClockOffsets
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.detector import Detector
from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, MemberStore, WallClock
from membership.server_clocks import ServerClocks
from membership.settings import MembershipSettings
from membership.view import MembersView
from membership.work import Work

_LOG = logging.getLogger(__name__)
_READS_PER_BEAT = 30 / 29
"""Slightly more than one, so that over 30 beats the reads drift through every age a heartbeat can have (`clocks`)."""
_READS_AT_FIRST = 10
"""Factor on the rate of reads while clocks are known by few beats: it keeps ages below a tenth of a beat."""


class Observer:
    """`servers`: members are read only after the servers' clocks are known. `changed` is called after each read, and
    when an incarnation turns out to be dead or alive."""

    def __init__(
        self,
        *,
        me: NodeIncarnation,
        store: MemberStore,
        servers: ServerClocks,
        clock: WallClock,
        settings: MembershipSettings,
        work: Work,
        changed: Callable[[], None],
    ) -> None:
        self._me = me
        self._store = store
        self._servers = servers
        self._clock = clock
        self._settings = settings
        self._work = work
        self._changed = changed
        self._detector = Detector(
            me=me, dead_after_seconds=settings.dead_after_seconds, gap_seconds=settings.gap_seconds
        )
        self._clocks = ClockOffsets(window_beats=settings.clock_window_beats, beat_seconds=settings.beat_seconds)
        self._answered = True
        self._asking: dict[NodeIncarnation, None] = {}
        self.view = MembersView()

    def watch(self, incarnation: NodeIncarnation) -> None:
        """Judge an incarnation that a lease names though it has no heartbeat."""
        self._detector.watch(incarnation, now=self._clock.monotonic())
        self._ask()

    def open_incarnations(self) -> list[NodeIncarnation]:
        """Incarnations that are not known to be dead or left."""
        return self._detector.open_incarnations()

    async def run(self) -> None:
        """Read until cancelled."""
        period = self._settings.beat_seconds / _READS_PER_BEAT
        await self._servers.known()
        while True:
            begun = self._clock.monotonic()
            try:
                heartbeats = await self._store.read_heartbeats()
            except StoreUnavailable as error:
                self._store_answers(False, str(error))
                await self._clock.sleep(self._settings.retry_seconds)
                continue
            returned = self._clock.monotonic()
            self._store_answers(True, "")
            self._detector.observed(begun=begun, returned=returned, heartbeats=heartbeats)
            self._clocks.observed(heartbeats, wall_ms=self._clock.wall_ms(), monotonic=returned)
            self._show({beat.incarnation: beat for beat in heartbeats}, read_at=returned)
            self._ask()
            often = self._clocks.few_of(heartbeat.incarnation for heartbeat in self.view.members)
            pause = period / _READS_AT_FIRST if often else period
            await self._clock.sleep(begun + pause - self._clock.monotonic())

    def _store_answers(self, answers: bool, reason: str) -> None:
        """Log each change of reachability, not each request."""
        if answers == self._answered:
            return
        self._answered = answers
        if answers:
            _LOG.info("members can be read again", extra={"action": "members-read", "incarnation": str(self._me)})
        else:
            _LOG.warning(
                "the members can't be read: %s",
                reason,
                extra={"action": "members-unread", "incarnation": str(self._me)},
            )

    def _show(self, heartbeats: Mapping[NodeIncarnation, Heartbeat], *, read_at: float) -> None:
        members = sorted(incarnation for incarnation in heartbeats if self._detector.is_member(incarnation))
        servers = self._servers.ahead_ms()
        offset = self._clocks.offset_ms(self._me, members, servers=servers)
        ahead = max(offset, 0) if offset is not None else None
        if ahead is None:
            ahead = self._clocks.ahead_at_most_ms(self._me, members, servers=servers)
        self.view = MembersView(
            read_at=read_at,
            members=tuple(heartbeats[incarnation] for incarnation in members),
            free=self._detector.free(),
            heartbeats=heartbeats,
            silence=self._detector.silence(self._clock.monotonic()),
            offset_ms=offset or 0,
            offset_known=offset is not None,
            ahead_at_most_ms=ahead,
            witnesses=self._clocks.witnesses(members, me=self._me),
        )
        self._changed()

    def _ask(self) -> None:
        """Begin what the detector asks for, one request per incarnation at a time."""
        for incarnation, renewals in self._detector.to_declare():
            if self._may_ask(incarnation):
                self._work.begin(self._declare(incarnation, renewals), "declare")
        oldest = self._clock.monotonic() - self._settings.record_refresh_seconds
        for incarnation in self._detector.to_read(older_than=oldest):
            if self._may_ask(incarnation):
                self._work.begin(self._read_record(incarnation), "record")

    def _may_ask(self, incarnation: NodeIncarnation) -> bool:
        if incarnation in self._asking or len(self._asking) >= self._settings.max_concurrent_records:
            return False
        self._asking[incarnation] = None
        return True

    async def _read_record(self, incarnation: NodeIncarnation) -> None:
        try:
            record = await self._store.read_incarnation(incarnation)
        except StoreUnavailable:
            return
        finally:
            del self._asking[incarnation]
        was_member = self._detector.is_member(incarnation)
        self._detector.record_read(incarnation, record, returned=self._clock.monotonic())
        self._ask()
        if was_member != self._detector.is_member(incarnation) or not self._asking:
            self._show(self.view.heartbeats, read_at=self.view.read_at)

    async def _declare(self, incarnation: NodeIncarnation, renewals: int) -> None:
        answer: Answer[IncarnationRecord | None]
        try:
            answer = await self._store.declare_dead(incarnation, renewals=renewals)
        except StoreUnavailable as error:
            answer = Unknown(str(error))
        finally:
            del self._asking[incarnation]
        self._detector.declared(incarnation, answer, returned=self._clock.monotonic())
        match answer:
            case Applied():
                verdict = "dead"
            case Rejected(current):
                verdict = "dead already" if current is None or not current.alive else "alive after all"
            case Unknown(reason):
                verdict = f"undecided: {reason}"
            case _:
                assert_never(answer)
        _LOG.warning(
            "%s is silent: %s",
            incarnation,
            verdict,
            extra={"action": "incarnation-judged", "incarnation": str(incarnation), "by": str(self._me)},
        )
        self._show(self.view.heartbeats, read_at=self.view.read_at)
