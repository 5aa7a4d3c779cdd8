"""The SDK with a key of scope manage, against the API."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from minutehand.client import AsyncMinutehand, MinutehandApiError
from tests.support.api import ADMIN_KEY, ApiHarness


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


async def test_it_needs_an_administrator_once(api: ApiHarness) -> None:
    assert api.server is not None
    url = f"http://127.0.0.1:{api.server.port}"
    async with AsyncMinutehand(url, ADMIN_KEY) as admin:
        made = await admin.clients.register("shop", poller_quota=2)
        assert made.signing_secret is not None
        assert (await admin.clients.register("shop", poller_quota=2)).signing_secret is None
        manager = await admin.client("shop").keys.create(scope="manage", name="ops of shop")
    async with AsyncMinutehand(url, manager.key) as own:
        shop = own.client("shop")
        expires_at = manager.created_at + timedelta(hours=1)
        reader = await shop.keys.create(scope="read", name="dashboard", expires_at=expires_at)
        assert (reader.scope, reader.name, reader.expires_at) == ("read", "dashboard", expires_at)
        assert {one.key_id: one.scope for one in await shop.keys.list()} == {
            manager.key_id: "manage",
            reader.key_id: "read",
        }
        assert (await shop.keys.create()).scope == "write"
        (secret,) = await shop.signing_secrets.list()
        assert secret.secret_id == made.signing_secret.secret_id
        pair = await shop.signing_secrets.create(scheme="v1a")
        (public,) = await shop.signing_secrets.public_keys()
        assert (pair.scheme, pair.secret, pair.secret_id) == ("v1a", public.public_key, public.secret_id)
        changed = await shop.change_settings({"timeout_seconds": 5, "in_doubt": "drop"})
        assert (changed.settings["timeout_seconds"], changed.poller_quota) == (5.0, 2)
        assert (await shop.pause()).paused
        assert (await shop.get()).paused
        assert not (await shop.unpause()).paused
        log = [one async for one in shop.audit_log(start=datetime.fromisoformat("2026-11-21T00:00:00Z"))]
        assert {one.action for one in log if one.by_client} == {
            "create_key",
            "create_secret",
            "change_settings",
            "pause_client",
            "unpause_client",
        }
        assert {one.actor for one in log} == {"shop", "administrator"}
    async with AsyncMinutehand(url, reader.key) as reading:
        with pytest.raises(MinutehandApiError, match="scope manage"):
            await reading.client("shop").pause()
