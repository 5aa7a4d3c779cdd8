"""Bulk loads: the first to begin one decides, and the last run's state counts."""

import msgspec
import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.bulk_loads import BulkLoad, BulkState
from scheduler_service.domain.ids import ClientId, UnixMillis
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

AT = 1_795_253_400_123


def begun(client_id: ClientId, load_id: str = "orders", *, pollers: int = 4, at: int = AT) -> BulkLoad:
    return BulkLoad(
        client_id=client_id,
        load_id=load_id,
        key_column="order id",
        pollers=pollers,
        started_at=UnixMillis(at),
        state_at=UnixMillis(at),
    )


async def test_the_first_begin_of_a_bulk_load_decides_its_parameters(storage: Storage, names: Names) -> None:
    client, loads = names.client(), storage.bulk_loads
    assert await loads.read(client, "orders") is None
    first = begun(client)
    assert await loads.begin(first) is APPLIED
    assert await loads.begin(begun(client, pollers=8, at=AT + 1)) == Rejected(first)
    assert await loads.begin(begun(client, "returns", pollers=8)) is APPLIED
    assert await loads.begin(begun(names.client("other"), pollers=2)) is APPLIED
    assert await loads.read(client, "orders") == first


async def test_a_state_is_that_of_the_last_run(storage: Storage, names: Names) -> None:
    client, loads = names.client(), storage.bulk_loads
    first = begun(client)
    await loads.begin(first)
    for state in (BulkState.PARTIAL, BulkState.RUNNING, BulkState.WHOLE):
        await loads.note(client, "orders", state=state, at=UnixMillis(AT + 5))
        noted = msgspec.structs.replace(first, state=state, state_at=UnixMillis(AT + 5))
        assert await loads.read(client, "orders") == noted
        assert await loads.begin(first) == Rejected(noted)
