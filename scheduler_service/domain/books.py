"""What is recorded beside a schedule's own row: failed attempts, what gave up, the balance of a settled minute."""

import msgspec

from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, ScheduleId, UnixMillis, partition_of


class MinuteBalance(msgspec.Struct, frozen=True, kw_only=True):
    """The books of one lane's minute: accepted = delivered + failed + cancelled + skipped + open.

    `lateness` holds a histogram's counts, the meaning of its buckets is the writer's. `epoch`: of the lease under which
    it was written.
    """

    client_id: ClientId
    poller_id: PollerId
    minute: Minute
    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int
    lateness: tuple[int, ...] = ()
    epoch: int


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that did not deliver. Stored with the original row, whichever copy made it. `attempt` is from 1."""

    client_id: ClientId
    schedule_id: ScheduleId
    attempt: int
    started_at: UnixMillis
    status: int | None
    error: str | None
    duration_ms: int
    excerpt: str

    @property
    def partition(self) -> Partition:
        return partition_of(self.client_id, self.schedule_id)


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that ended as failed, filed under the hour of `failed_at`."""

    client_id: ClientId
    poller_id: PollerId
    failed_at: UnixMillis
    schedule_id: ScheduleId
    reason: str | None
    last_status: int | None
    last_error: str | None
    attempts: int
