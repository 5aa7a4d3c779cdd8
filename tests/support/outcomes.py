"""Schedules of the API harness with outcomes, as a node would have recorded them."""

from typing import Any
from uuid import UUID

from cql.storage import Storage
from membership.conditional import Applied
from scheduler_service.domain.acknowledgements import AWAITING, Address, address_token, deadline_at
from scheduler_service.domain.books import AttemptRecord, DeadLetter
from scheduler_service.domain.ids import DAY_MS, ClientId, ScheduleId, UnixMillis, key_of, partition_of, poller_of
from scheduler_service.domain.schedule_filters import destination_of, host_of
from scheduler_service.domain.schedules import Outcome, OwnerCommit, Row, RowWrite, State
from tests.support.api import ApiHarness, schedule

SHOP = ClientId("shop")


async def created(api: ApiHarness, key: str, **fields: object) -> ScheduleId:
    """A schedule of the client `shop`."""
    reply = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule(**fields))
    assert reply.status == 201, reply.body
    return ScheduleId(UUID(reply.json["schedule_id"]))


async def record(
    api: ApiHarness,
    schedule_id: ScheduleId,
    outcome: Outcome | None,
    *,
    in_flight: bool = False,
    client_id: ClientId = SHOP,
) -> None:
    """Make an owner commit of epoch 1, as a process of its own; without an outcome it only claims."""
    partition, key = partition_of(client_id, schedule_id), key_of(schedule_id)
    schedules = Storage.over(api.storage.connection).schedules
    header, _ = await schedules.read_rows(partition, [key], serial=True)
    answer = await schedules.commit(
        OwnerCommit(
            partition=partition,
            epoch=1,
            expect_epoch=header.claim_epoch,
            version=header.version,
            edits=header.edits,
            edits_known=True,
            in_flight=header.in_flight | {schedule_id} if in_flight else header.in_flight - {schedule_id},
            writes=() if outcome is None else (RowWrite(key=key, outcome=outcome),),
        )
    )
    assert isinstance(answer, Applied)


async def ended(api: ApiHarness, schedule_id: ScheduleId, state: State, **columns: Any) -> Outcome:
    """End a schedule now, after one attempt by default."""
    known: dict[str, Any] = {
        "attempts": 0 if state is State.SKIPPED else 1,
        "finished_at": UnixMillis(api.clock.now),
        "first_attempt_at": None if state is State.SKIPPED else UnixMillis(api.clock.now - 7),
        "last_status": {State.DELIVERED: 204, State.FAILED: 503}.get(state),
        "reason": "exhausted" if state is State.FAILED else None,
    }
    outcome = Outcome(state=state, **{**known, **columns})
    await record(api, schedule_id, outcome)
    return outcome


async def gave_up(api: ApiHarness, schedule_id: ScheduleId, **columns: Any) -> None:
    """Fail a schedule now, with its dead letter."""
    outcome = await ended(api, schedule_id, State.FAILED, **columns)
    row = await row_of(api, schedule_id)
    assert row is not None
    assert row.url is not None
    assert outcome.finished_at is not None
    letter = DeadLetter(
        client_id=SHOP,
        poller_id=poller_of(schedule_id),
        failed_at=outcome.finished_at,
        schedule_id=schedule_id,
        reason=outcome.reason,
        last_status=outcome.last_status,
        last_error=outcome.last_error,
        attempts=outcome.attempts,
        host=host_of(row.url),
        destination=destination_of(row.url),
        label=row.label,
    )
    await api.storage.dead_letters.insert([letter])


async def attempted(api: ApiHarness, schedule_id: ScheduleId, number: int, **columns: Any) -> None:
    """Record an attempt that failed now."""
    known: dict[str, Any] = {"status": 503, "error": None, "duration_ms": 12, "excerpt": "no"}
    attempt = AttemptRecord(
        client_id=SHOP,
        schedule_id=schedule_id,
        attempt=number,
        started_at=UnixMillis(api.clock.now),
        **{**known, **columns},
    )
    await api.storage.attempts.record([attempt])


async def row_of(api: ApiHarness, schedule_id: ScheduleId, *, at: int | None = None) -> Row | None:
    """The original, or the retry row at an instant."""
    partition, key = partition_of(SHOP, schedule_id), key_of(schedule_id)
    if at is not None:
        partition, key = (
            partition._replace(minute=type(partition.minute)(at // 60_000)),
            key._replace(due=UnixMillis(at)),
        )
    return (await api.storage.schedules.find_rows(partition, [key], serial=True)).get(key)


async def awaiting(api: ApiHarness, schedule_id: ScheduleId) -> str:
    """Record that the receiver has answered 202 to the first call, under fence 1; returns the token of its address."""
    at = deadline_at(api.clock.now + 60_000, attempts=1)
    outcome = Outcome(
        state=State.RETRYING, attempts=1, next_attempt_at=at, last_status=202, reason=AWAITING, fired_epoch=1
    )
    await record(api, schedule_id, outcome)
    return await ack_token(api, schedule_id)


async def ack_token(api: ApiHarness, schedule_id: ScheduleId, **other: Any) -> str:
    """The token of the address that a first call under fence 1 carried, but for what is given."""
    secrets = await api.storage.clients.list_secrets(SHOP)
    expires_at = UnixMillis(api.clock.now + DAY_MS)
    known = Address(client_id=SHOP, schedule_id=schedule_id, attempt=1, fence=1, expires_at=expires_at)
    return address_token(known._replace(**other), secrets[0].secret)
