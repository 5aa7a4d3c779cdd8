"""Keeps an incarnation's own trust through the store: confirmed beats prolong it, renewals regain it."""

from collections.abc import Callable

from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation
from membership.ports import IncarnationRecord, MemberStore, WallClock
from membership.settings import MembershipSettings
from membership.trust import Trust
from membership.work import Work


class TrustRenewal:
    """`regained` is called when trust begins again, `died` when the record shows that this incarnation is dead."""

    def __init__(
        self,
        *,
        incarnation: NodeIncarnation,
        store: MemberStore,
        clock: WallClock,
        settings: MembershipSettings,
        work: Work,
        regained: Callable[[], None],
        died: Callable[[], None],
    ) -> None:
        self._incarnation = incarnation
        self._store = store
        self._clock = clock
        self._work = work
        self._regained = regained
        self._died = died
        self._trust = Trust(trust_seconds=settings.trust_seconds)
        self._under_way = False

    def trusted(self) -> bool:
        return self._trust.trusted(self._clock.monotonic())

    def end(self) -> None:
        """No trust from now on."""
        self._trust.over = True

    def beat_confirmed(self, *, begun: float) -> None:
        """The heartbeat whose write began at `begun` was acknowledged. While lapsed this starts a renewal: the store
        answers again, and the others see this incarnation before it acts."""
        self._trust.beat_confirmed(begun=begun, now=self._clock.monotonic())
        if not self.trusted() and not self._under_way and not self._trust.over:
            self._under_way = True
            self._work.begin(self._renew(), "renewal")

    async def _renew(self) -> None:
        try:
            while not self.trusted() and not self._trust.over:
                if not await self._step():
                    return
        finally:
            self._under_way = False
        if not self._trust.over:
            self._regained()

    async def _step(self) -> bool:
        """One renewal, or the read that must precede it. False when no answer came: the next beat tries again."""
        renewals = self._trust.renewals
        answer: Answer[IncarnationRecord | None]
        answered = True
        if renewals is None:
            try:
                self._record(await self._store.read_incarnation(self._incarnation))
            except StoreUnavailable:
                answered = False
            return answered
        begun = self._clock.monotonic()
        try:
            answer = await self._store.renew_incarnation(self._incarnation, renewals=renewals)
        except StoreUnavailable as error:
            answer = Unknown(str(error))
        was_over = self._trust.over
        self._trust.renewal_answered(answer, begun=begun)
        if self._trust.over and not was_over:
            self._died()
        return not isinstance(answer, Unknown)

    def _record(self, record: IncarnationRecord | None) -> None:
        was_over = self._trust.over
        self._trust.record_read(record)
        if self._trust.over and not was_over:
            self._died()
