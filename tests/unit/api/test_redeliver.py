"""Redelivery over REST: which schedules may be redelivered, and the answers."""

from uuid import UUID

import pytest

from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.options import Redelivery, decode_options
from scheduler_service.domain.retry_rows import REDELIVERY
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ApiHarness, Reply
from tests.support.outcomes import attempted, created, ended, record, row_of

SCHEDULES = "/v1/clients/shop/schedules"


async def redeliver(api: ApiHarness, key: str, schedule_id: UUID) -> Reply:
    return await api.send("POST", f"{SCHEDULES}/{schedule_id}:redeliver", key=key)


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.SKIPPED])
async def test_what_has_ended_is_called_again_now(api: ApiHarness, key: str, state: State) -> None:
    one = await created(api, key, ordering_key="order")
    api.clock.advance(100)
    before = await ended(api, one, state)
    api.clock.advance(50)
    reply = await redeliver(api, key, one)
    at = api.clock.now + 1
    assert reply.status == 202, reply.body
    assert (reply.json["state"], reply.json["attempts"], reply.json["reason"]) == (
        "retrying",
        before.attempts,
        REDELIVERY,
    )
    assert reply.json["next_attempt_at"] == reply.json["redelivered_at"] == format_instant(at)
    assert (reply.json["finished_at"], reply.json["ordering_key"]) == (None, "order")
    retry_row = await row_of(api, one, at=at)
    assert retry_row is not None
    assert (retry_row.is_retry_row, retry_row.attempt_base, retry_row.ordering_key) == (True, before.attempts, None)
    assert decode_options(retry_row.options).redelivery == Redelivery(at=at, attempts=before.attempts)
    assert [hint[1].due for hint in api.hints.hints][-1] == at


async def test_an_instant_is_never_named_twice(api: ApiHarness, key: str) -> None:
    """A node whose clock is ahead recorded the end."""
    one = await created(api, key)
    await ended(api, one, State.DELIVERED, finished_at=UnixMillis(NOW + 200_000))
    reply = await redeliver(api, key, one)
    assert reply.json["next_attempt_at"] == format_instant(NOW + 200_001)
    early = await created(api, key, delay_seconds=60)
    await ended(api, early, State.SKIPPED)
    assert (await redeliver(api, key, early)).json["next_attempt_at"] == format_instant(NOW + 60_001)


async def test_a_second_redelivery_is_refused_as_already_open(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await ended(api, one, State.FAILED)
    assert (await redeliver(api, key, one)).status == 202
    api.clock.advance(1)
    reply = await redeliver(api, key, one)
    assert (reply.status, reply.json["type"], reply.json["state"]) == (409, "/problems/already-open", "retrying")
    assert await row_of(api, one, at=NOW + 1001) is None


async def test_what_is_open_or_cancelled_is_a_conflict(api: ApiHarness, key: str) -> None:
    waiting, retried, cancelled = [await created(api, key) for _ in range(3)]
    await record(api, retried, Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(NOW + 500_000)))
    await api.send("DELETE", f"{SCHEDULES}/{cancelled}", key=key)
    for one, kind, state in (
        (waiting, "already-open", "scheduled"),
        (retried, "already-open", "retrying"),
        (cancelled, "cancelled", "cancelled"),
    ):
        reply = await redeliver(api, key, one)
        assert (reply.status, reply.json["type"], reply.json["state"]) == (409, f"/problems/{kind}", state)


async def test_unknown_and_expired_schedules_are_not_redelivered(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await ended(api, one, State.DELIVERED)
    assert (await redeliver(api, key, UUID("01a1fe7b-0a24-8000-81b0-6435e6edef00"))).status == 404
    assert (await api.send("POST", f"{SCHEDULES}/nonsense:redeliver", key=key)).status == 404
    api.clock.advance(7 * 86_400)
    assert (await redeliver(api, key, one)).status == 404


async def test_a_suspended_client_redelivers_nothing(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await ended(api, one, State.DELIVERED)
    await api.send("POST", "/v1/clients/shop:suspend")
    reply = await redeliver(api, key, one)
    assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended")


@pytest.mark.parametrize("asks", ["looks", "asks", "asks-under-a-key"])
async def test_a_retry_row_that_its_caller_left_out_is_placed_by_the_next_read(
    api: ApiHarness, key: str, asks: str
) -> None:
    one = await created(api, key)
    await ended(api, one, State.FAILED)
    at = UnixMillis(NOW + 100_000)
    pointer = Outcome(
        state=State.RETRYING, attempts=1, next_attempt_at=at, reason=REDELIVERY, redelivered_at=at, redelivered_after=1
    )
    await record(api, one, pointer)
    if asks == "looks":
        reply = await api.send("GET", f"{SCHEDULES}/{one}", key=key)
        assert (reply.status, reply.json["state"]) == (200, "retrying")
    else:
        headers = {"Idempotency-Key": "k"} if asks == "asks-under-a-key" else {}
        reply = await api.send("POST", f"{SCHEDULES}/{one}:redeliver", key=key, headers=headers)
        assert reply.status == 409
    retry_row = await row_of(api, one, at=at)
    assert retry_row is not None
    assert retry_row.defined


async def test_every_attempt_stays_known(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    api.clock.advance(100)
    await attempted(api, one, 1)
    await ended(api, one, State.DELIVERED, attempts=2)
    first_end = format_instant(api.clock.now)
    assert (await redeliver(api, key, one)).status == 202
    found = (await api.send("GET", f"{SCHEDULES}/{one}/attempts", key=key)).json["items"]
    assert [(each["attempt"], each["outcome"], each["status"]) for each in found] == [
        (1, "failed", 503),
        (2, "delivered", 204),
    ]
    assert (found[1]["finished_at"], found[1]["started_at"], found[1]["excerpt"]) == (first_end, None, None)


async def test_an_uncounted_attempt_keeps_its_number(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await ended(api, one, State.FAILED, attempts=0, reason="in-doubt", last_status=None)
    assert (await redeliver(api, key, one)).json["attempts"] == 1
