"""What is recorded beside the schedules: balances of settled minutes, attempts, dead letters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from cql.connection import UNSET, Connection, Item, Parameters
from membership.conditional import Answer, Applied, Rejected, Unknown
from scheduler_service.domain.acknowledgements import KeptWord
from scheduler_service.domain.books import AttemptRecord, DeadLetter, LetterKey, MinuteBalance
from scheduler_service.domain.ids import (
    HOUR_MS,
    ClientId,
    Hour,
    Minute,
    PollerId,
    ScheduleId,
    hour_of,
    minute_of,
    minute_start,
    partition_of,
)
from scheduler_service.runtime.concurrently import concurrently

_BATCH_ROWS = 10
_BATCH_BYTES = 40_000
"""The server refuses requests over several partitions above 50 KiB unless configured otherwise."""
_ROW_BYTES = 300
"""Bytes of a row without its texts."""
_LOWEST_ID = UUID(int=0)
_STARTED_AT = AttemptRecord.__struct_fields__.index("started_at")
_decode_word = msgspec.json.Decoder(KeptWord).decode
_KEYS_PER_READ = 100
_BALANCE_COLUMNS = (
    *("client_id", "poller_id", "minute", "accepted", "delivered", "failed", "cancelled", "skipped", "open"),
    *("lateness", "max_lateness_ms", "version", "edits", "epoch"),
)


class CqlBalanceStore:
    """`domain.ports.BalanceStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, balance: MinuteBalance) -> Answer[int]:
        parameters = _balance_parameters(balance)
        # `epoch <= ?` is false for a row without epoch, so the first balance takes another statement.
        answer = await self._connection.conditional((("minute_balance.write_first", parameters),))
        if isinstance(answer, Rejected):
            again = ("minute_balance.write_again", (*parameters, balance.epoch))
            answer = await self._connection.conditional((again,))
        match answer:
            case Rejected(rows):
                epoch = rows[0]["epoch"] if rows else None
                return Unknown("the balance was deleted meanwhile") if epoch is None else Rejected(epoch)
            case Applied() | Unknown():
                return answer

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[MinuteBalance]:
        hours = range(hour_of(first), hour_of(last) + 1) if first <= last else range(0)
        bounds = (minute_start(first), minute_start(last))
        answers = await concurrently(
            lambda hour: self._connection.select("minute_balance.read", (client_id, hour * HOUR_MS, *bounds)), hours
        )
        return [_balance(values) for rows in answers for values in rows if values[-1] is not None]


class CqlAttemptStore:
    """`domain.ports.AttemptStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def record(self, attempts: Sequence[AttemptRecord]) -> None:
        # Sorted by partition, so that rows of one partition share a request: one mutation, not one each row.
        together = sorted(attempts, key=lambda attempt: attempt.partition)
        await _insert(self._connection, [("attempts.insert", _attempt_parameters(attempt)) for attempt in together])

    async def read(self, client_id: ClientId, schedule_id: ScheduleId) -> Sequence[AttemptRecord]:
        _, poller_id, minute = partition_of(client_id, schedule_id)
        parameters = (client_id, poller_id, minute_start(minute), schedule_id)
        rows = await self._connection.select("attempts.read", parameters)
        return [
            AttemptRecord(**dict(zip(AttemptRecord.__struct_fields__, values, strict=True)))
            for values in rows
            if values[_STARTED_AT] is not None  # else there is only a word
        ]

    async def record_word(self, client_id: ClientId, schedule_id: ScheduleId, attempt: int, word: KeptWord) -> None:
        _, poller_id, minute = partition_of(client_id, schedule_id)
        text = msgspec.json.encode(msgspec.structs.replace(word, data=b"")).decode()
        keys = (client_id, poller_id, minute_start(minute), schedule_id, attempt)
        await self._connection.write("attempts.insert_word", (*keys, text, word.data))

    async def read_words(self, client_id: ClientId, schedule_id: ScheduleId) -> Mapping[int, KeptWord]:
        _, poller_id, minute = partition_of(client_id, schedule_id)
        parameters = (client_id, poller_id, minute_start(minute), schedule_id)
        rows = await self._connection.select("attempts.read_words", parameters)
        return {
            attempt: msgspec.structs.replace(_decode_word(text), data=bytes(data or b""))
            for attempt, text, data in rows
            if text is not None
        }


class CqlDeadLetterStore:
    """`domain.ports.DeadLetterStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def insert(self, letters: Sequence[DeadLetter]) -> None:
        await _insert(self._connection, [("dead_letters.insert", _letter_parameters(letter)) for letter in letters])

    async def read_page(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, *, after: LetterKey | None = None, limit: int = 100
    ) -> Sequence[DeadLetter]:
        behind = (0, _LOWEST_ID) if after is None else after
        parameters = (client_id, hour * HOUR_MS, poller_id, *behind, limit)
        rows = await self._connection.select("dead_letters.read", parameters)
        return [_letter(values) for values in rows]

    async def find(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, keys: Sequence[LetterKey]
    ) -> Sequence[DeadLetter]:
        wanted = list(dict.fromkeys(keys))
        found: list[DeadLetter] = []
        for start in range(0, len(wanted), _KEYS_PER_READ):
            parameters = (client_id, hour * HOUR_MS, poller_id, wanted[start : start + _KEYS_PER_READ])
            rows = await self._connection.select("dead_letters.read_keys", parameters)
            found += [_letter(values) for values in rows]
        return found


def _letter(values: tuple[Any, ...]) -> DeadLetter:
    return DeadLetter(**dict(zip(DeadLetter.__struct_fields__, values, strict=True)))


async def _insert(connection: Connection, items: Sequence[Item]) -> None:
    """Insert few rows a request: they may belong to many partitions, and excerpts of responses are long."""
    await concurrently(connection.write_batch, _requests(items))


def _requests(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Groups within the limits, but of one row at least: a request on a single partition has no such limit."""
    request: list[Item] = []
    size = 0
    for item in items:
        of_item = _ROW_BYTES + sum(len(value.encode()) for value in item[1] if isinstance(value, str))
        if request and (len(request) == _BATCH_ROWS or size + of_item > _BATCH_BYTES):
            yield request
            request, size = [], 0
        request.append(item)
        size += of_item
    if request:
        yield request


def _balance_parameters(balance: MinuteBalance) -> Parameters:
    return (
        balance.accepted,
        balance.delivered,
        balance.failed,
        balance.cancelled,
        balance.skipped,
        balance.open,
        list(balance.lateness),
        balance.max_lateness_ms,
        balance.version,
        balance.edits,
        balance.epoch,
        balance.client_id,
        hour_of(balance.minute) * HOUR_MS,
        minute_start(balance.minute),
        balance.poller_id,
    )


def _balance(values: tuple[Any, ...]) -> MinuteBalance:
    found = dict(zip(_BALANCE_COLUMNS, values, strict=True))
    found["minute"] = minute_of(found["minute"])
    found["lateness"] = tuple(found["lateness"] or ())
    found["max_lateness_ms"] = found["max_lateness_ms"] or 0
    return MinuteBalance(**found)


def _attempt_parameters(attempt: AttemptRecord) -> Parameters:
    client_id, poller_id, minute = attempt.partition
    return (
        client_id,
        poller_id,
        minute_start(minute),
        attempt.schedule_id,
        attempt.attempt,
        attempt.started_at,
        UNSET if attempt.status is None else attempt.status,
        UNSET if attempt.error is None else attempt.error,
        attempt.duration_ms,
        attempt.excerpt,
    )


def _letter_parameters(letter: DeadLetter) -> Parameters:
    return (
        letter.client_id,
        letter.failed_at // HOUR_MS * HOUR_MS,
        letter.poller_id,
        letter.failed_at,
        letter.schedule_id,
        *(UNSET if value is None else value for value in (letter.reason, letter.last_status, letter.last_error)),
        letter.attempts,
        *(UNSET if value is None else value for value in (letter.host, letter.destination, letter.label)),
        *(UNSET if value is None else value for value in (letter.acknowledged_at, letter.acknowledged_by)),
    )
