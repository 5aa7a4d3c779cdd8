"""Balances, failed attempts, dead letters."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.acknowledgements import KeptWord
from scheduler_service.domain.books import (
    NO_STAMP,
    AttemptRecord,
    CountedRow,
    CountPage,
    DeadLetter,
    LetterKey,
    MinuteBalance,
    Stamp,
)
from scheduler_service.domain.ids import ClientId, Minute, PollerId, UnixMillis, hour_of
from scheduler_service.domain.schedules import Kind, Outcome, RowWrite, State
from tests.contract.builders import MINUTE, START, commit, definition, partition, update
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
        "max_lateness_ms": 1 << 40,
        "epoch": 3,
        "version": 1 << 40,
        "edits": UUID(int=5),
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
    for later in (
        balance(client, open=0, delivered=6, edits=UUID(int=6)),
        balance(client, epoch=9, lateness=(), max_lateness_ms=0, version=None, edits=None),
    ):
        assert await balances.write(later) == APPLIED
        assert await balances.read(client, first=Minute(MINUTE), last=Minute(MINUTE)) == [later]


async def test_what_an_older_version_stored_holds_no_more(storage: Storage, names: Names) -> None:
    client = names.client()
    await storage.balances.write(balance(client, version=None, edits=None, max_lateness_ms=0))
    (stored,) = await storage.balances.read(client, first=Minute(MINUTE), last=Minute(MINUTE))
    where = partition(client)
    assert stored.holds(await storage.schedules.read_stamp(where))
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    await storage.schedules.commit(commit(where))
    assert not stored.holds(await storage.schedules.read_stamp(where))


async def test_rows_are_counted_page_by_page_with_their_stamp(storage: Storage, names: Names) -> None:
    client = names.client()
    where, rows = partition(client), [definition(client, offset=number // 2, tail=number) for number in range(7)]
    retry_row = definition(client, offset=9, tail=9, kind=Kind.RETRY_ROW, origin_due=START)
    assert await storage.schedules.count_page(where) == CountPage(NO_STAMP, [], False)
    assert await storage.schedules.read_stamp(where) == NO_STAMP
    await storage.schedules.insert_many([*rows, retry_row])
    first = RowWrite(
        key=rows[0].key,
        outcome=Outcome(state=State.DELIVERED, attempts=1, first_attempt_at=UnixMillis(START + 3)),
        expect_state=State.SCHEDULED,
    )
    assert await storage.schedules.update(update(where, 5, first)) == APPLIED
    assert await storage.schedules.open(where, epoch=1, expect_epoch=None) == APPLIED
    stamp = Stamp(None, UUID(int=5))
    assert await storage.schedules.read_stamp(where) == stamp
    await storage.schedules.commit(commit(where, edits=UUID(int=5)))
    stamp = Stamp(1, UUID(int=5))
    assert await storage.schedules.read_stamp(where) == stamp

    counted: list[CountedRow] = []
    page = await storage.schedules.count_page(where, limit=3)
    while page.more:
        assert (page.stamp, len(page.rows)) == (stamp, 3)
        counted += page.rows
        page = await storage.schedules.count_page(where, after=page.rows[-1].key, limit=3)
    counted += page.rows
    assert [row.key for row in counted] == [*(row.key for row in rows), retry_row.key]
    assert counted[0] == CountedRow(*rows[0].key, "call", UnixMillis(START - 1000), "delivered", UnixMillis(START + 3))
    assert counted[1] == CountedRow(*rows[1].key, "call", UnixMillis(START - 1000), None, None)
    assert counted[-1].kind == "copy"
    assert await storage.schedules.count_page(where, after=retry_row.key) == CountPage(NO_STAMP, [], False)


async def test_a_partition_with_a_header_only_counts_nothing(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    await storage.schedules.commit(commit(where, expect_epoch=None))
    assert await storage.schedules.count_page(where) == CountPage(Stamp(1, None), [], False)
    assert await storage.schedules.read_stamp(where) == Stamp(1, None)


async def test_balances_of_a_span(storage: Storage, names: Names) -> None:
    client = names.client()
    wanted = [
        balance(client, minute=MINUTE + offset, poller_id=poller)
        for offset in (0, 1, 59, 60, 1440)
        for poller in (0, 3)
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
        AttemptRecord(
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
        await storage.attempts.record([*reversed(attempts), of_other])
    await storage.attempts.record([])
    assert await storage.attempts.read(client, one.schedule_id) == attempts
    assert await storage.attempts.read(client, other.schedule_id) == [of_other]
    assert await storage.attempts.read(client, definition(client, tail=3).schedule_id) == []


async def test_words_are_beside_the_records_of_attempts(storage: Storage, names: Names) -> None:
    client = names.client()
    one, other = definition(client, tail=1).schedule_id, definition(client, tail=2).schedule_id
    first = KeptWord(result="extend", at=UnixMillis(START), reason="more to do")
    second = KeptWord(result="done", at=UnixMillis(START + 1), data=b'{"rows":[3,"\xc3\xa9"]}')
    await storage.attempts.record_word(client, one, 1, first)
    assert await storage.attempts.read(client, one) == [], "a word alone is no record of an attempt"
    record = AttemptRecord(
        client_id=client,
        schedule_id=one,
        attempt=1,
        started_at=UnixMillis(START),
        status=202,
        error=None,
        duration_ms=12,
        excerpt="",
    )
    await storage.attempts.record([record])
    assert await storage.attempts.read_words(client, one) == {1: first}
    for _ in range(2):
        await storage.attempts.record_word(client, one, 1, second)
    await storage.attempts.record_word(client, one, 2, first)
    assert await storage.attempts.read_words(client, one) == {1: second, 2: first}
    assert await storage.attempts.read(client, one) == [record]
    assert await storage.attempts.read_words(client, other) == {}


async def test_long_excerpts_of_many_schedules_are_stored_together(storage: Storage, names: Names) -> None:
    """The longest excerpts that a node may be told to keep, of invalid UTF-8 that takes three bytes for each."""
    client = names.client()
    attempts = [
        AttemptRecord(
            client_id=client,
            schedule_id=definition(client, poller_id=number).schedule_id,
            attempt=1,
            started_at=UnixMillis(START),
            status=500,
            error=None,
            duration_ms=12,
            excerpt="\ufffd" * (65_536 if number == 3 else 2_000),
        )
        for number in range(24)
    ]
    await storage.attempts.record(attempts)
    for one in attempts:
        assert await storage.attempts.read(client, one.schedule_id) == [one]


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
        after = page[-1].key
    assert collected == letters


async def test_dead_letters_by_their_keys(storage: Storage, names: Names) -> None:
    client = names.client()
    letters = [
        DeadLetter(
            client_id=client,
            poller_id=PollerId(2),
            failed_at=UnixMillis(START + number // 2),
            schedule_id=definition(client, tail=number).schedule_id,
            reason="exhausted",
            last_status=500,
            last_error=None,
            attempts=10,
            host="shop.example" if number % 2 else None,
            destination=None if number % 2 else "shop",
            label=f"l{number}" if number % 3 else None,
        )
        for number in range(230)
    ]
    await storage.dead_letters.insert(letters)
    wanted, hour = letters[5:], hour_of(MINUTE)
    keys = [LetterKey(UnixMillis(START - 1), letters[0].schedule_id), *[letter.key for letter in wanted], wanted[0].key]
    found = await storage.dead_letters.find(client, PollerId(2), hour, keys)
    assert sorted(found, key=lambda letter: letter.key) == sorted(wanted, key=lambda letter: letter.key)
    assert await storage.dead_letters.find(client, PollerId(1), hour, keys) == []
    assert await storage.dead_letters.find(client, PollerId(2), hour, []) == []


async def test_an_acknowledgement_stays_when_its_letter_is_inserted_again(storage: Storage, names: Names) -> None:
    client = names.client()
    letter = DeadLetter(
        client_id=client,
        poller_id=PollerId(2),
        failed_at=UnixMillis(START),
        schedule_id=definition(client).schedule_id,
        reason="exhausted",
        last_status=500,
        last_error=None,
        attempts=10,
        host="shop.example",
    )
    seen_to = msgspec.structs.replace(letter, acknowledged_at=UnixMillis(START + 60_000), acknowledged_by="ops")
    for one in (letter, seen_to, letter):
        await storage.dead_letters.insert([one])
    assert await storage.dead_letters.read_page(client, PollerId(2), hour_of(MINUTE)) == [seen_to]
