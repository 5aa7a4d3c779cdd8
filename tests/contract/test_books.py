"""Balances, failed attempts, dead letters."""

from typing import Any

import msgspec
import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.books import DeadLetter, FailedAttempt, MinuteBalance
from scheduler_service.domain.ids import ClientId, Minute, PollerId, UnixMillis, hour_of
from tests.contract.builders import MINUTE, START, definition
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")


def balance(client_id: ClientId, **other: Any) -> MinuteBalance:
    values: dict[str, Any] = {
        "poller_id": 0,
        "minute": MINUTE,
        "accepted": 15,
        "delivered": 1,
        "failed": 2,
        "cancelled": 3,
        "skipped": 4,
        "open": 5,
        "lateness": (1, 0, 7),
        "epoch": 3,
    }
    return MinuteBalance(client_id=client_id, **{**values, **other})


async def test_a_balance_is_never_replaced_by_one_of_a_lower_epoch(storage: Storage, names: Names) -> None:
    client = names.client()
    first = balance(client)
    balances = storage.balances
    assert await balances.write(first) == APPLIED
    assert await balances.write(first) == APPLIED
    assert await balances.write(balance(client, epoch=2, accepted=0)) == Rejected(3)
    assert await balances.read(client, first=Minute(MINUTE), last=Minute(MINUTE)) == [first]
    for later in (balance(client, open=0, delivered=6), balance(client, epoch=9, lateness=())):
        assert await balances.write(later) == APPLIED
        assert await balances.read(client, first=Minute(MINUTE), last=Minute(MINUTE)) == [later]


async def test_balances_of_a_span(storage: Storage, names: Names) -> None:
    client = names.client()
    wanted = [
        balance(client, minute=MINUTE + offset, poller_id=lane) for offset in (0, 1, 59, 60, 1440) for lane in (0, 3)
    ]
    outside = [balance(client, minute=MINUTE + offset) for offset in (-1, 1441)]
    for one in reversed([*wanted, *outside]):
        await storage.balances.write(one)
    assert await storage.balances.read(client, first=Minute(MINUTE), last=Minute(MINUTE + 1440)) == wanted
    assert await storage.balances.read(client, first=Minute(MINUTE), last=Minute(MINUTE - 1)) == []


async def test_failed_attempts_of_one_schedule(storage: Storage, names: Names) -> None:
    client = names.client()
    one, other = definition(client, tail=1), definition(client, tail=2, poller_id=5)
    attempts = [
        FailedAttempt(
            client_id=client,
            schedule_id=one.schedule_id,
            attempt=number,
            started_at=UnixMillis(START + 60_000 * number),
            status=None if number % 2 else 503,
            error="timeout" if number % 2 else None,
            duration_ms=12,
            excerpt="é" * number,
        )
        for number in range(1, 24)
    ]
    of_other = msgspec.structs.replace(attempts[0], schedule_id=other.schedule_id)
    for _ in range(2):
        await storage.attempts.record_failed([*reversed(attempts), of_other])
    await storage.attempts.record_failed([])
    assert await storage.attempts.read(client, one.schedule_id) == attempts
    assert await storage.attempts.read(client, other.schedule_id) == [of_other]
    assert await storage.attempts.read(client, definition(client, tail=3).schedule_id) == []


async def test_dead_letters_page_by_page(storage: Storage, names: Names) -> None:
    client = names.client()
    letters = [
        DeadLetter(
            client_id=client,
            poller_id=PollerId(2),
            failed_at=UnixMillis(START + number // 2),
            schedule_id=definition(client, tail=number).schedule_id,
            reason="exhausted" if number % 3 else None,
            last_status=500 if number % 2 else None,
            last_error=None if number % 2 else "timeout",
            attempts=10,
        )
        for number in range(25)
    ]
    elsewhere = [
        msgspec.structs.replace(letters[0], failed_at=UnixMillis(START + 3_600_000)),
        msgspec.structs.replace(letters[0], poller_id=PollerId(1)),
    ]
    for _ in range(2):
        await storage.dead_letters.insert([*reversed(letters), *elsewhere])
    hour = hour_of(MINUTE)
    collected: list[DeadLetter] = []
    after = None
    while page := await storage.dead_letters.read_page(client, PollerId(2), hour, after=after, limit=10):
        collected += page
        after = page[-1]
    assert collected == letters
