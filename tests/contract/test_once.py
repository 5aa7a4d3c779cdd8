"""A repeated create under a once token changes nothing of its row, whatever happened to it since."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from cql.storage import Storage
from membership.conditional import Applied
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.schedules import Outcome, OwnerCommit, PartitionHeader, Row, RowWrite, State
from tests.contract.conftest import Names
from tests.support.api import NOW, ApiHarness, Reply, callback, schedule

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONCE = f"{NOW}.2.1.0123456789abcdef"
BODY = schedule(delay_seconds=1, label="x", callback=callback(headers={"a": "b"}, body="hello"))


@pytest_asyncio.fixture(loop_scope="session")
async def api(storage: Storage) -> AsyncIterator[ApiHarness]:
    async with ApiHarness(stores=storage) as made:
        yield made


async def create(api: ApiHarness, client: ClientId) -> Reply:
    reply = await api.send("POST", f"/v1/clients/{client}/schedules?once={ONCE}", json=BODY)
    assert reply.status == 201, reply.body
    return reply


async def seen(storage: Storage, client: ClientId, one: ScheduleId) -> tuple[PartitionHeader, Row]:
    header, rows = await storage.schedules.read_rows(partition_of(client, one), [key_of(one)], serial=True)
    return header, rows[key_of(one)]


async def recorded(storage: Storage, client: ClientId, one: ScheduleId, outcome: Outcome | None) -> None:
    """An outcome by the owner of epoch 1; without one, a claim."""
    answer = await storage.schedules.commit(
        OwnerCommit(
            partition=partition_of(client, one),
            epoch=1,
            expect_epoch=None,
            version=None,
            edits=None,
            edits_known=True,
            in_flight=frozenset({one} if outcome is None else ()),
            writes=() if outcome is None else (RowWrite(key=key_of(one), outcome=outcome),),
        )
    )
    assert isinstance(answer, Applied)


@pytest.mark.parametrize("became", ["nothing", "claimed", "delivered", "failed", "cancelled", "rescheduled"])
@pytest.mark.parametrize("late", [0, 300], ids=["at-once", "late"])
async def test_a_repeat_changes_nothing(api: ApiHarness, names: Names, became: str, late: int) -> None:
    client, storage = names.client(), api.storage
    await api.register(client, quota=2)
    one = ScheduleId(UUID((first := await create(api, client)).json["schedule_id"]))
    path = f"/v1/clients/{client}/schedules/{one}"
    ends = {"delivered": State.DELIVERED, "failed": State.FAILED}
    if became in ends:
        at = UnixMillis(NOW + 2_000)
        await recorded(storage, client, one, Outcome(state=ends[became], attempts=1, finished_at=at))
    elif became == "claimed":
        await recorded(storage, client, one, None)
    elif became == "cancelled":
        assert (await api.send("DELETE", path)).status == 200
    elif became == "rescheduled":
        assert (await api.send("POST", f"{path}:reschedule", json={"delay_seconds": 600})).status == 201
    before = await seen(storage, client, one)
    api.clock.advance(late)
    again = await create(api, client)
    assert again.json == first.json
    after = await seen(storage, client, one)
    # When late, a row without an owner is moved into a minute that will still be read, as with any create.
    if late and became in ("nothing", "claimed"):
        assert after[1].state == State.RETRYING
        assert after[1].reason == ("in-doubt" if became == "claimed" else "late-create")
    else:
        assert after == before
    listed = await api.send("GET", f"/v1/clients/{client}/schedules?from=2026-11-21T09:30:00Z&to=2026-11-21T09:31:00Z")
    assert [item["schedule_id"] for item in listed.json["items"]] == [str(one)]
