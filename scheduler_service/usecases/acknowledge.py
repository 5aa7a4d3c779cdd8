"""Acknowledge: a receiver's word about a call that it has taken by 202 (`domain.acknowledgements`).

    the original as read                               done, failed             extend
    awaits the word of this attempt and fence          points to a word, now    points to a later deadline
    has got the same word                              as if it came now        -
    has got another word, or ended, or goes on         409                      409
    an earlier attempt, or none, is recorded           TooEarly                 TooEarly

A word is written on condition that the original still names the deadline that was read; after a rejection or an unknown
answer it is read again, so a word that was written is recognized. The retry row of a word is placed before the answer,
and what the receiver handed over is kept. A process that dies before that has answered nothing, so the receiver repeats
its word; if it does not, the poller's owner finds the pointer at the deadline.

A receiver may be faster than the record of its 202. Such a word waits for that a moment, and is then TooEarly: to be
repeated.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.acknowledgements import (
    ACKNOWLEDGED,
    AWAITING,
    RECEIVER_FAILED,
    Ack,
    AckSettings,
    Address,
    KeptWord,
    SignedAddress,
    WordName,
    clear_of_deadlines,
    deadline_at,
)
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId, Partition, UnixMillis, key_of, partition_of
from scheduler_service.domain.options import Undecodable, decode_options
from scheduler_service.domain.ports import AttemptStore, ClientStore, ScheduleStore, SecretEncryption
from scheduler_service.domain.retry_rows import definition_of, outcome_after, retry_row_key, retry_row_partition
from scheduler_service.domain.schedules import Outcome, Row, RowWrite, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.schedule_request import no_ack
from scheduler_service.usecases.schedule_writer import MAX_PARTITION_TURNS, ScheduleWriter
from scheduler_service.usecases.signing_secrets import active_secrets

EARLY_LOOKS: Final = 8
EARLY_PAUSE_SECONDS: Final = 0.25
"""How long a word waits for the record of its 202: a node records outcomes within half a second, as a rule."""
KNOWN_CLIENTS: Final = 1_024
SECRETS_FRESH_SECONDS: Final = 5.0
"""How long a client's secrets are known without reading them again; a second if an address is not signed by them."""


def ack_fault(ack: Ack, *, settings: AckSettings, admit: Callable[[], None]) -> str | None:
    """Why a callback may not have this `ack`; None: it may. `admit()` raises Conflict (older-nodes) while nodes run
    that take a 202 for an end."""
    if settings.base_url is None:
        return no_ack(ack)
    if ack.within_seconds > settings.longest_seconds:
        return f"may be awaited for at most {settings.longest_seconds} seconds, by the operator's configuration"
    admit()
    return None


class TooEarly(MinutehandError):
    """The call's 202 is not recorded yet."""


class NoSuchAddress(NotFound):
    """No secret of the client signed this address, or it has expired."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a receiver says. `within_seconds`: for extend, how long from now; None: as the callback says. `data`: JSON,
    or empty."""

    result: WordName
    reason: str | None = None
    within_seconds: float | None = None
    data: bytes = b""


@dataclass(slots=True)
class _Known:
    secrets: Sequence[bytes]
    read_at: float


class CheckAddress:
    """Whether an address was signed by one of its client's secrets. Guesses cost at most a read a second of each
    client, and what its caller lets them cost of those that this process does not know."""

    def __init__(self, *, clients: ClientStore, encryption: SecretEncryption, clock: Clock) -> None:
        self._clients = clients
        self._encryption = encryption
        self._clock = clock
        self._known: OrderedDict[ClientId, _Known] = OrderedDict()

    async def __call__(
        self, signed: SignedAddress, *, before_guess: Callable[[], None], no_guess: Callable[[], None]
    ) -> Address:
        """Before a client's secrets are read that are not known here, `before_guess()` may raise; `no_guess()` is told
        if the address was right then. Raises NoSuchAddress, SecretLocked, StoreUnavailable."""
        client_id, now = signed.address.client_id, self._clock.monotonic()
        known = self._known.get(client_id)
        unknown = known is None
        if unknown:
            before_guess()
        if known is None or now - known.read_at >= SECRETS_FRESH_SECONDS:
            known = await self._read(client_id)
        if not signed.signed_by(known.secrets) and now - known.read_at >= 1.0:
            known = await self._read(client_id)
        if not signed.signed_by(known.secrets):
            raise NoSuchAddress("no secret of the client signed this address")
        if unknown:
            no_guess()
        return signed.address

    async def _read(self, client_id: ClientId) -> _Known:
        stored = await self._clients.list_secrets(client_id)
        active = active_secrets(stored, encryption=self._encryption, now=self._clock.wall_ms())
        known = _Known((*active.secrets, *active.private_keys), self._clock.monotonic())
        if not known.secrets:
            # Most likely there is no such client, and it must not take the place of one that is.
            return known
        self._known[client_id] = known
        self._known.move_to_end(client_id)
        if len(self._known) > KNOWN_CLIENTS:
            self._known.popitem(last=False)
        return known


class AcknowledgeWork:
    """Takes words at addresses that the caller has checked."""

    def __init__(
        self, *, schedules: ScheduleStore, attempts: AttemptStore, writer: ScheduleWriter, clock: Clock
    ) -> None:
        self._schedules = schedules
        self._attempts = attempts
        self._writer = writer
        self._clock = clock

    async def __call__(self, address: Address, word: Word) -> Row:
        """The original with the word. Raises TooEarly, Conflict, NotFound; StoreUnavailable when it stays unknown
        whether the word counts: repeat it."""
        # Before anything is judged by it or written: an instant from such a clock could be any.
        self._writer.check_clock()
        if address.expires_at < self._clock.wall_ms():
            raise NoSuchAddress("this address has expired")
        partition, key = partition_of(address.client_id, address.schedule_id), key_of(address.schedule_id)
        looks = 0
        for _ in range(MAX_PARTITION_TURNS):
            row = (await self._schedules.find_rows(partition, [key], serial=True)).get(key)
            if row is None or not row.defined:
                raise NotFound("the schedule does not exist any more")
            if _is_early(row, address):
                looks += 1
                if looks > EARLY_LOOKS:
                    raise TooEarly("the call's 202 is not recorded yet")
                await self._clock.sleep(EARLY_PAUSE_SECONDS)
                continue
            _refuse_stale(row, address)
            if (found := await self._take(partition, row, address, word)) is not None:
                return found
        raise StoreUnavailable("the minute of this schedule changes too often")

    async def _take(self, partition: Partition, row: Row, address: Address, word: Word) -> Row | None:
        """One try. None: read again."""
        if _is_recorded(row, word.result):
            await self._keep(address, word, repeated=True)
            return row
        if row.ended:
            raise Conflict("already-finished", "the schedule has ended", state=row.shown_state)
        if row.state == State.RETRYING and row.reason == _reason(word.result) and word.result != "extend":
            await self._writer.complete(definition_of(partition, row), _outcome(row, row.next_attempt_at, row.reason))
            await self._keep(address, word, repeated=True)
            return row
        if row.state != State.RETRYING or row.reason != AWAITING:
            raise Conflict("stale-attempt", "no word about this attempt is awaited any more", state=row.shown_state)
        return await self._point(partition, row, address, word)

    async def _point(self, partition: Partition, row: Row, address: Address, word: Word) -> Row | None:
        assert row.next_attempt_at is not None
        if word.result == "extend":
            at = self._later(row, address, word)
            if at <= row.next_attempt_at:
                await self._keep(address, word)
                return row
        else:
            at = await self._free_instant(partition, row)
        outcome = _outcome(row, at, _reason(word.result))
        write = RowWrite(
            key=row.key, outcome=outcome, expect_state=State.RETRYING, expect_next_attempt_at=row.next_attempt_at
        )
        match await self._writer.update(partition, [write]):
            case Rejected() | Unknown():
                return None
            case Applied():
                # Where a deadline moves, the retry row of the old one places the new one.
                if word.result != "extend":
                    await self._writer.complete(definition_of(partition, row), outcome)
                await self._keep(address, word)
                return msgspec.structs.replace(row, reason=outcome.reason, next_attempt_at=at)

    def _later(self, row: Row, address: Address, word: Word) -> UnixMillis:
        seconds = word.within_seconds
        if seconds is None:
            try:
                ack = decode_options(row.options).ack
            except Undecodable:
                ack = None
            seconds = 0.0 if ack is None else ack.within_seconds
        latest = min(self._clock.wall_ms() + round(seconds * 1000), address.expires_at)
        return deadline_at(latest, attempts=row.attempts or 0)

    async def _free_instant(self, partition: Partition, row: Row) -> UnixMillis:
        """Now, or the next instant that the schedule has never named: clocks differ. A clock that is ahead delays the
        word no longer than until about the deadline."""
        assert row.next_attempt_at is not None
        at = max(min(self._clock.wall_ms(), row.next_attempt_at), row.due + 1)
        while True:
            at = clear_of_deadlines(at)
            key = retry_row_key(row.schedule_id, UnixMillis(at))
            there = retry_row_partition(partition, UnixMillis(at))
            if key not in await self._schedules.find_rows(there, [key]):
                return UnixMillis(at)
            at += 1

    async def _keep(self, address: Address, word: Word, *, repeated: bool = False) -> None:
        """What is handed over with a word is kept; of a word that is repeated, the first."""
        client_id, schedule_id = address.client_id, address.schedule_id
        if word.result == "extend" and not (word.reason or word.data):
            return
        if repeated:
            known = (await self._attempts.read_words(client_id, schedule_id)).get(address.attempt)
            if known is not None and known.result == word.result:
                return
        at = UnixMillis(self._clock.wall_ms())
        kept = KeptWord(result=word.result, at=at, reason=word.reason, data=word.data)
        await self._attempts.record_word(client_id, schedule_id, address.attempt, kept)


def _outcome(row: Row, at: UnixMillis | None, reason: str | None) -> Outcome:
    assert at is not None
    return outcome_after(row, state=State.RETRYING, at=at, reason=reason)


def _reason(said: WordName) -> str:
    """The reason of a row that this was said of."""
    if said == "done":
        return ACKNOWLEDGED
    if said == "failed":
        return RECEIVER_FAILED
    return AWAITING


def _is_recorded(row: Row, said: WordName) -> bool:
    """Whether the poller's owner has recorded this word: as the end, or as a failed attempt that may be retried."""
    if said == "done":
        return row.state == State.DELIVERED and row.reason == ACKNOWLEDGED
    failed = row.state in (State.RETRYING, State.FAILED) and row.last_error == RECEIVER_FAILED
    return said == "failed" and failed


def _is_early(row: Row, address: Address) -> bool:
    """Whether the attempt of this address may still be recorded."""
    if row.ended:
        return False
    attempts, fence = row.attempts or 0, row.fired_epoch or 0
    return attempts < address.attempt or (attempts == address.attempt and fence < address.fence)


def _refuse_stale(row: Row, address: Address) -> None:
    """Raises Conflict unless the newest attempt is that of the address."""
    if (row.attempts or 0, row.fired_epoch or 0) != (address.attempt, address.fence):
        raise Conflict("stale-attempt", "the address is of another attempt than the newest", state=row.shown_state)
