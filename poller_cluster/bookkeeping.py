"""What a node writes beside the outcomes themselves: balances, dead letters, failed attempts.

Balances and dead letters are part of settling a minute: they are written before its watermark passes, and repeated by
whoever settles it again. Rows of failed attempts are a record for people: written at once, given up after a while when
storage is away, never in the way of a call.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from poller_cluster.account import Account
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatcher import Job
from scheduler_service.domain.books import DeadLetter, FailedAttempt, MinuteBalance
from scheduler_service.domain.ids import Partition, UnixMillis
from scheduler_service.domain.ports import AttemptStore, BalanceStore, DeadLetterStore
from scheduler_service.domain.schedules import Definition, Outcome, State
from scheduler_service.runtime.clock import Clock

ATTEMPTS_WAITING = 10_000
"""Failed attempts waiting to be recorded; beyond that the newest are not."""
ATTEMPTS_PER_WRITE = 50
ATTEMPT_WRITE_TRIES = 5


class Bookkeeper:
    """Writes through three stores. `settle` and `dead_letter` raise StoreUnavailable; the caller repeats."""

    def __init__(
        self,
        *,
        balances: BalanceStore,
        dead_letters: DeadLetterStore,
        attempts: AttemptStore,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._balances = balances
        self._dead_letters = dead_letters
        self._attempts = attempts
        self._clock = clock
        self._spawn = spawn
        self._waiting: list[FailedAttempt] = []
        self._writing = False

    async def settle(self, partition: Partition, epoch: int, account: Account) -> None:
        """Write a minute's balance; an empty minute writes nothing. A higher epoch's balance is left alone."""
        if account.accepted == 0:
            return
        counts = account.counts
        balance = MinuteBalance(
            client_id=partition.client_id,
            poller_id=partition.poller_id,
            minute=partition.minute,
            accepted=account.accepted,
            delivered=counts.get(State.DELIVERED, 0),
            failed=counts.get(State.FAILED, 0),
            cancelled=counts.get(State.CANCELLED, 0),
            skipped=counts.get(State.SKIPPED, 0),
            open=counts.get(State.RETRYING, 0),
            lateness=tuple(account.lateness),
            epoch=epoch,
        )
        match await self._balances.write(balance):
            case Applied() | Rejected():
                return
            case Unknown(reason=reason):
                raise StoreUnavailable(reason)

    async def dead_letter(self, definition: Definition, outcome: Outcome) -> None:
        """File what gave up. The same row and outcome make the same letter."""
        await self._dead_letters.insert(
            [
                DeadLetter(
                    client_id=definition.client_id,
                    poller_id=definition.poller_id,
                    failed_at=outcome.finished_at or UnixMillis(definition.due),
                    schedule_id=definition.schedule_id,
                    reason=outcome.reason,
                    last_status=outcome.last_status,
                    last_error=outcome.last_error,
                    attempts=outcome.attempts,
                )
            ]
        )

    def attempt_made(self, job: Job, result: AttemptResult, outcome: Outcome) -> None:
        """Note a failed attempt. A first-attempt success is in the schedule's own row."""
        if result.succeeded or len(self._waiting) >= ATTEMPTS_WAITING:
            return
        self._waiting.append(
            FailedAttempt(
                client_id=job.client_id,
                schedule_id=job.claim.row.schedule_id,
                attempt=outcome.attempts,
                started_at=UnixMillis(result.started_at_ms),
                status=result.status,
                error=result.error,
                duration_ms=round(result.duration_seconds * 1000),
                excerpt=result.excerpt,
            )
        )
        if not self._writing:
            self._writing = True
            self._spawn(self._write_attempts(), "failed attempts")

    async def _write_attempts(self) -> None:
        tries = 0
        while self._waiting:
            some = self._waiting[:ATTEMPTS_PER_WRITE]
            try:
                await self._attempts.record_failed(some)
            except StoreUnavailable:
                tries += 1
                if tries < ATTEMPT_WRITE_TRIES:
                    await self._clock.sleep(1.0)
                    continue
            tries = 0
            del self._waiting[: len(some)]
        self._writing = False
