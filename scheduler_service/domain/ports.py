"""What use cases and pollers need from the world, implemented by `cql` (and, for tests, over its in-memory connection).

Reads are at LOCAL_QUORUM unless marked serial; a serial read sees every conditional write applied before it began.
`consistency` is for what tenants ask: their looking (LOCAL_ONE: what was written a moment ago may not be seen) and
their creates (EACH_QUORUM: unavailable while any data centre is). What decides anything never gives it.
Conditional writes answer Applied, Rejected(current) or Unknown and never raise for storage trouble. Reads and plain
writes raise `StoreUnavailable` when no answer came; a plain write may then have taken effect all the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from membership.conditional import Answer
from membership.identity import Life
from membership.ports import StoreUnavailable
from scheduler_service.domain.audit import AuditEntry, EntryId
from scheduler_service.domain.books import CountPage, DeadLetter, FailedAttempt, LetterKey, MinuteBalance, Stamp
from scheduler_service.domain.clients import ApiKey, Client, ReadConsistency, SigningSecret, WriteConsistency
from scheduler_service.domain.crons.row import Cron, CronAdvance, CronMark, CronRun, CronStanding
from scheduler_service.domain.errors import MinutehandError
from scheduler_service.domain.idempotency import Kept
from scheduler_service.domain.ids import (
    ClientId,
    CronId,
    Hour,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
)
from scheduler_service.domain.reconciliations import Reconciliation, ReconciliationId, ReviewPage, Slot
from scheduler_service.domain.samples import Exchange, Sample
from scheduler_service.domain.schedules import (
    Advance,
    Definition,
    Edit,
    Page,
    Row,
    Statics,
    Unfinished,
    WriteRejection,
)

__all__ = [
    "AttemptStore",
    "AuditStore",
    "BalanceStore",
    "ClientStore",
    "CronStore",
    "DeadLetterStore",
    "HintSender",
    "IdempotencyStore",
    "NodePorts",
    "ReconciliationStore",
    "ScheduleStore",
    "StoreUnavailable",
]


class ScheduleStore(Protocol):
    """The `schedules` table and its index `occupied_minutes`."""

    async def insert(self, definition: Definition, *, consistency: WriteConsistency = "LOCAL_QUORUM") -> None:
        """Insert one definition durably, its index row acknowledged first, both at `consistency`.

        Repeatable: equal values over equal values. Concurrent calls of one consistency share requests (group commit);
        each ends with the request that carried it. Raises StoreUnavailable; ContentTooLarge for a row no request can
        carry; Overloaded (a StoreUnavailable) when the bounded queue is full and nothing was sent.
        """

    async def insert_many(
        self, definitions: Sequence[Definition], *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> Sequence[MinutehandError | None]:
        """The same for many at once: None for each that is durable, else its own error, which is what `insert` raises.

        Returns when the last request that carries one of them has ended. Overloaded is raised, for all of them.
        """

    async def read_page(
        self,
        partition: Partition,
        *,
        after: RowKey | None = None,
        limit: int = 1000,
        consistency: ReadConsistency = "LOCAL_QUORUM",
    ) -> Page:
        """Up to `limit` rows behind `after` in key order, with the statics of the same read.

        `in_flight` comes from a second read that found the same claim_epoch and version (else both are repeated, at
        LOCAL_QUORUM).
        """

    async def read_rows(
        self,
        partition: Partition,
        keys: Iterable[RowKey],
        *,
        serial: bool = False,
        consistency: ReadConsistency = "LOCAL_QUORUM",
    ) -> tuple[Statics, dict[RowKey, Row]]:
        """The rows of the given keys that exist; absent ones are missing from the answer, pointers are not.

        A serial read of one key sees statics and row together. Of many keys (any number, 100 in a request), the statics
        are those of the first request. Where no row exists, the statics are read right after.
        """

    async def find_rows(
        self, partition: Partition, keys: Iterable[RowKey], *, serial: bool = False
    ) -> dict[RowKey, Row]:
        """The same rows without the statics, which cost a request and grow with what is in flight."""

    async def open(self, partition: Partition, *, epoch: int, expect_epoch: int | None) -> Answer[Statics]:
        """Set claim_epoch = epoch if it is `expect_epoch` (None: null)."""

    async def advance(self, advance: Advance) -> Answer[WriteRejection]:
        """The owner's conditional batch, all or nothing. Refuses (ContentTooLarge) what the server would refuse."""

    async def edit(self, edit: Edit) -> Answer[WriteRejection]:
        """Anyone's conditional batch, all or nothing."""

    async def occupied(
        self, client_id: ClientId, *, first: Minute, last: Minute, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> Mapping[Minute, Sequence[PollerId]]:
        """Which lanes have rows, per minute of [first, last], both inclusive; minutes without any are absent."""

    async def count_unfinished(self, partition: Partition, *, due_until: int, limit: int) -> Unfinished:
        """How many of the first `limit` rows are due at `due_until` or before and have no outcome. Reads no bodies."""

    async def count_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> CountPage:
        """Up to `limit` rows behind `after` in key order, as far as counting takes them: no bodies. Behind a key, the
        stamp is that of the partition only if rows follow."""

    async def review_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 500) -> ReviewPage:
        """Up to `limit` rows behind `after` in key order, as far as reconciliations take them: no bodies."""

    async def read_stamp(self, partition: Partition) -> Stamp:
        """What changes with every outcome. It is read alone, however many rows there are."""

    async def delete_partition(self, partition: Partition) -> None:
        """Delete a whole partition that is past its retention with its attempts and balance, then its index row.

        A delete that was cut short is repeated harmlessly: while the index row is there, it is found again.
        """


class ClientStore(Protocol):
    """Clients, keys, signing secrets and the revision that tells everybody when one of them changed."""

    async def read_client(self, client_id: ClientId) -> Client | None: ...

    async def list_clients(self) -> Sequence[Client]:
        """All clients, by client_id. Bounded by the number of tenants, which a node holds in memory anyway."""

    async def create_client(self, client: Client) -> Answer[Client | None]:
        """Insert if it does not exist. Bumps the catalog revision after it was applied."""

    async def update_client(self, *, expected_revision: int, client: Client) -> Answer[Client | None]:
        """Replace if the stored revision is as expected. Bumps the catalog revision after it was applied."""

    async def catalog_revision(self) -> int:
        """Changes whenever a client, key or secret changed: a cheap read for everybody who caches them."""

    async def insert_key(self, key: ApiKey) -> None: ...

    async def read_key(self, key_id: str) -> ApiKey | None: ...

    async def list_keys(self, client_id: ClientId) -> Sequence[ApiKey]:
        """Keys of one client, revoked ones included, oldest first."""

    async def list_admin_keys(self) -> Sequence[ApiKey]:
        """Keys of all administrators, revoked ones included, oldest first."""

    async def revoke_key(self, key_id: str, *, revoked_at: int) -> None: ...

    async def insert_secret(self, secret: SigningSecret) -> None: ...

    async def list_secrets(self, client_id: ClientId) -> Sequence[SigningSecret]:
        """Active and expired ones, oldest first."""

    async def delete_secret(self, client_id: ClientId, secret_id: str) -> None: ...


class CronStore(Protocol):
    """The tables `crons` and `cron_runs`.

    All crons of a client are one partition, so conditional writes on one client's crons contend: those of one process
    are sent one at a time, many crons in each.
    """

    async def read(
        self, client_id: ClientId, cron_ids: Sequence[CronId], *, serial: bool = False
    ) -> Mapping[CronId, Cron]:
        """Those that exist (any number, 100 in a request), deleted ones included. One that can't be decoded is left
        out, and logged."""

    async def read_standings(self, client_id: ClientId, cron_ids: Sequence[CronId]) -> Mapping[CronId, CronStanding]:
        """The same of each only what a fire is judged by: without the callback, which may be large."""

    async def read_page(self, client_id: ClientId, *, after: CronId | None = None, limit: int = 100) -> Sequence[Cron]:
        """Up to `limit` crons behind `after` in the order of their ids, deleted ones included. Fewer: there are no
        more. Those that can't be decoded are made up for."""

    async def read_marks(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronMark]:
        """The same, of each only what the search for forgotten crons needs."""

    async def write(self, cron: Cron, *, expected_revision: int | None) -> Answer[Cron | None]:
        """Replace all columns if the stored revision is `expected_revision` (None: there is no such cron).

        Concurrent calls for one client share requests; each has its own answer. Raises ContentTooLarge for a cron no
        request can carry, and an error where the one that is stored instead can't be decoded.
        """

    async def advance(self, client_id: ClientId, changes: Sequence[CronAdvance]) -> Answer[None]:
        """Write the progress of these crons, all or nothing. Raises ValueError for more than 100, or one twice."""

    async def insert_runs(self, runs: Sequence[CronRun]) -> None:
        """Insert them durably; repeating it is harmless. Kept 90 days."""

    async def read_runs(
        self,
        client_id: ClientId,
        cron_id: CronId,
        *,
        first: UnixMillis,
        last: UnixMillis,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[CronRun]:
        """Up to `limit` runs with first <= nominal_due <= last, in their order.

        Reads every month between the two until `limit` is reached, so the caller bounds them: runs are kept 90 days.
        Raises ValueError over 400 days.
        """


class BalanceStore(Protocol):
    """The books of lanes' minutes, as they were counted; `domain.books` says which of them still hold."""

    async def write(self, balance: MinuteBalance) -> Answer[int]:
        """Replace the minute's balance if none is stored or its epoch is at most `balance.epoch`.

        Rejected(the higher epoch that is stored). Repeating it is harmless.
        """

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[MinuteBalance]:
        """Of [first, last], both inclusive, by minute and lane; minutes without a balance are absent."""


class AttemptStore(Protocol):
    """Failed attempts, one row each."""

    async def record_failed(self, attempts: Sequence[FailedAttempt]) -> None:
        """Insert them; repeating equal values is harmless."""

    async def read(self, client_id: ClientId, schedule_id: ScheduleId) -> Sequence[FailedAttempt]:
        """Those of one schedule, by number."""


class DeadLetterStore(Protocol):
    """What gave up, for listing and redrive. Kept 90 days."""

    async def insert(self, letters: Sequence[DeadLetter]) -> None:
        """Repeating equal values is harmless."""

    async def read_page(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, *, after: LetterKey | None = None, limit: int = 100
    ) -> Sequence[DeadLetter]:
        """Up to `limit` letters of one lane's hour behind `after`, in the order of failing (at once: of their ids)."""


class AuditStore(Protocol):
    """What administrators did. Entries are kept 400 days."""

    async def begin(self, entry: AuditEntry) -> None:
        """Insert an entry, its end left out. Repeating equal values is harmless."""

    async def end(self, entry: AuditEntry) -> None:
        """Add the end of an entry that was begun: status, problem, details. Repeating equal values is harmless."""

    async def read_page(self, *, first: EntryId, last: EntryId, limit: int) -> Sequence[AuditEntry]:
        """Up to `limit` entries with first <= entry_id <= last, newest first.

        Reads day by day until `limit` is reached, so the caller bounds the two: a request for each day.
        """


class IdempotencyStore(Protocol):
    """What was begun under idempotency keys. Kept 24 hours, then a key is as good as new."""

    async def keep(self, client_id: ClientId, key: str, kept: Kept) -> Answer[Kept]:
        """Insert if nothing is kept under this key. Rejected(what is)."""

    async def read(self, client_id: ClientId, key: str) -> Kept | None:
        """Serial: sees whatever was kept before it began."""


class ReconciliationStore(Protocol):
    """The tables `reconciliations` and `reconciliation_slots`. Kept 90 days.

    A reconciliation holds a slot of its client while it runs, so that there are never more than slots, and so that all
    that may be running is found without looking through every client.
    """

    async def insert(self, reconciliation: Reconciliation) -> None:
        """Insert what was asked for, not what came of it; repeating it is harmless. Moves `changes`, where that
        succeeds: those who search find it a little later otherwise."""

    async def read(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, serial: bool = False
    ) -> Reconciliation | None:
        """None: it was not inserted, or is not kept any more. Raises an error for one that can't be decoded."""

    async def read_newest(
        self, client_id: ClientId, *, before: ReconciliationId | None = None, limit: int = 100
    ) -> Sequence[Reconciliation]:
        """Up to `limit` of them, the newest first, older than `before`. Fewer: there are no more. Those that can't be
        decoded are made up for."""

    async def write(
        self, reconciliation: Reconciliation, *, expected_version: int | None
    ) -> Answer[Reconciliation | None]:
        """Replace state, version and progress if the stored version is `expected_version` (None: null)."""

    async def read_slots(self, client_id: ClientId) -> Mapping[int, ReconciliationId]:
        """Serial: who had each slot of a client last. Slots that nobody ever had are absent."""

    async def take_slot(self, slot: Slot, *, expected: ReconciliationId | None) -> Answer[None]:
        """Replace the holder of a slot if it is `expected` (None: nobody)."""

    async def list_slots(self, bucket: int) -> Sequence[Slot]:
        """Those of all clients that a hash puts into one of `SLOT_BUCKETS`: a few of each that ever reconciled."""

    async def changes(self) -> int:
        """Moves when something was asked for: a cheap read for everybody who searches."""


class HintSender(Protocol):
    """Tells the owner of a lane about near-term rows it has not read. Best effort, coalesced, never raises."""

    def hint(self, partition: Partition, key: RowKey) -> None: ...


class NodePorts(Protocol):
    """What a node may be told on its own port, by who knows the cluster's token."""

    async def drain(self, life: Life, *, address: str) -> None:
        """Begin to hand over every lane. Repeatable. Raises NodeUnreachable where exactly this life did not take it."""


class SampleCaller(Protocol):
    """Makes calls that are no schedule's, for somebody to look at."""

    async def call(self, sample: Sample) -> Exchange:
        """Send it once, as the client's schedules are sent, and wait for the end; whatever the receiver does is an
        answer. Raises TooManySamples; Overloaded where too many of all clients are under way."""
