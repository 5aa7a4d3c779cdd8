"""Callbacks' headers under a key ring: not readable in storage, and shown as before."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.key_ring import new_key
from scheduler_service.usecases.secret_encryption import (
    KeyRingEncryption,
    RotateSecrets,
    Rotation,
    SecretSettings,
    secret_encryption,
)
from tests.support.api import ApiHarness, callback
from tests.support.cron_calls import NIGHTLY, expand, put

RANDOMNESS = SystemRandomness()
FIRST, SECOND = (new_key(name, randomness=RANDOMNESS) for name in ("first", "second"))
SCHEDULES = "/v1/clients/shop/schedules"
CANARY = "canary7f3a"
GIVEN = {"Authorization": f"Bearer {CANARY}", "X-Api-Key": f"{CANARY}-key"}
SHOWN = {"Authorization": "***", "X-Api-Key": f"{CANARY}-key"}
ASKED = {"delay_seconds": 3600, "callback": callback(headers=GIVEN)}


class Sealed:
    """An API with a key ring from a file."""

    def __init__(self, ring: Path) -> None:
        self.ring = ring
        ring.write_text(FIRST)
        self.encryption = KeyRingEncryption(str(ring), randomness=RANDOMNESS)
        self.api = ApiHarness(encryption=self.encryption)
        self.key = ""

    async def ask(self, method: str, path: str, **asked: Any) -> Any:
        reply = await self.api.send(method, path, key=self.key, **asked)
        assert reply.status in (200, 201), reply.json
        return reply.json

    async def put(self) -> Any:
        reply = await put(self.api, self.key, expression="* * * * *", callback=callback(headers=GIVEN))
        assert reply.status in (200, 201), reply.json
        return reply.json

    def stored(self) -> str:
        """Every row of every table."""
        return str([self.api.connection.rows(table) for table in self.api.connection.tables])

    def headers(self) -> list[str]:
        """The stored headers of the client's schedules."""
        return [str(row["headers"]) for row in self.api.connection.rows("schedules") if row["client_id"] == "shop"]

    async def rotate(self, *, dry: bool = False) -> Rotation:
        rotation = RotateSecrets(
            store=self.api.storage.clients,
            crons=self.api.storage.crons,
            destinations=self.api.storage.destinations,
            encryption=self.encryption,
        )
        return await rotation.run(dry=dry, on_progress=lambda at, of: None)


@pytest.fixture
async def sealed(tmp_path: Path) -> AsyncIterator[Sealed]:
    made = Sealed(tmp_path / "ring")
    async with made.api as api:
        await api.add_built_in_clients()
        made.key = await api.register("shop")
        yield made


async def test_no_credential_is_in_what_is_stored_and_every_answer_shows_the_headers(sealed: Sealed) -> None:
    created = await sealed.ask("POST", SCHEDULES, json=ASKED)
    batch = await sealed.ask("POST", f"{SCHEDULES}:batch", json={"items": [ASKED, ASKED]})
    path = f"{SCHEDULES}/{created['schedule_id']}"
    moved = await sealed.ask("POST", f"{path}:reschedule", json={**ASKED, "delay_seconds": 7200})
    plainly = f"{SCHEDULES}/{moved['schedule_id']}"
    again = await sealed.ask("POST", f"{plainly}:reschedule", json={"delay_seconds": 9000})
    cron = await sealed.put()
    triggered = await sealed.ask("POST", f"{NIGHTLY}:trigger")
    listed = await sealed.ask("GET", f"{SCHEDULES}?from=2026-11-21T09:30:00Z&to=2026-11-21T13:00:00Z")
    assert len(listed["items"]) == 6
    items = [one["schedule"] for one in batch["items"]]
    shown = [created, *items, moved, again, cron, triggered, *listed["items"], await sealed.ask("GET", path)]
    assert [one["callback"]["headers"] for one in shown] == [SHOWN] * len(shown)
    await expand(sealed.api)
    assert CANARY not in sealed.stored()
    texts = sealed.headers()
    assert len(texts) > 6, "fires of the cron too"
    assert all(text.startswith("sealed:1:first:") for text in texts)
    assert len(set(texts)) == 1, "equal headers of one client are equal texts"


async def test_without_a_ring_nothing_changes(api: ApiHarness) -> None:
    key = await api.register("shop")
    await api.send("POST", SCHEDULES, key=key, json=ASKED)
    (row,) = api.connection.rows("schedules")
    assert row["headers"] == f'[["Authorization","Bearer {CANARY}"],["X-Api-Key","{CANARY}-key"]]'


async def test_a_repeated_create_writes_the_same_again(sealed: Sealed) -> None:
    repeat = {"key": sealed.key, "json": ASKED, "headers": {"Idempotency-Key": "one"}}
    first = (await sealed.api.send("POST", SCHEDULES, **repeat)).json
    before = sealed.headers()
    sealed.ring.write_text(f"{SECOND}\n{FIRST}")
    again = await sealed.api.send("POST", SCHEDULES, **repeat)
    assert (again.status, again.json) == (200, first)
    assert len(sealed.headers()) == 1
    assert before[0].startswith("sealed:1:first:")


async def test_what_no_key_opens_is_shown_without_its_headers(sealed: Sealed) -> None:
    created = await sealed.ask("POST", SCHEDULES, json=ASKED)
    await sealed.put()
    sealed.ring.write_text(SECOND)
    assert sealed.encryption.generation == 1, "headers of late are remembered until somebody looks at the ring"
    for path in (f"{SCHEDULES}/{created['schedule_id']}", NIGHTLY):
        assert (await sealed.ask("GET", path))["callback"]["headers"] is None
    assert (await sealed.put())["revision"] == 2, "what can't be opened is replaced"
    assert (await sealed.ask("GET", NIGHTLY))["callback"]["headers"] == SHOWN


async def test_the_same_cron_again_changes_nothing_however_it_is_stored(sealed: Sealed) -> None:
    first = await sealed.put()
    sealed.ring.write_text(f"{SECOND}\n{FIRST}")
    assert await sealed.put() == first
    assert (await sealed.rotate(dry=True)).crons == 1
    assert "sealed:1:first:" in str(sealed.api.connection.rows("crons")), "a dry run changes nothing"
    done = await sealed.rotate()
    assert (done.crons, done.complete) == (1, True)
    assert "sealed:1:second:" in str(sealed.api.connection.rows("crons"))
    assert (await sealed.rotate()).crons == 0
    sealed.ring.write_text(SECOND)
    assert await sealed.put() == first


async def test_a_cron_in_the_clear_is_encrypted_by_rotate(sealed: Sealed, tmp_path: Path) -> None:
    settings = SecretSettings(key_ring_file=str(tmp_path / "ring"), encrypt_headers=False)
    clear = secret_encryption(settings, randomness=RANDOMNESS)
    async with ApiHarness(encryption=clear, connection=sealed.api.connection) as other:
        await put(other, sealed.key, expression="* * * * *", callback=callback(headers=GIVEN))
        shown = await other.send("GET", NIGHTLY, key=sealed.key)
    assert CANARY in str(sealed.api.connection.rows("crons"))
    assert (await sealed.rotate()).crons == 1
    assert CANARY not in str(sealed.api.connection.rows("crons"))
    assert await sealed.ask("GET", NIGHTLY) == shown.json


async def test_headers_stay_in_the_clear_until_every_program_can_read_them(sealed: Sealed, tmp_path: Path) -> None:
    """As in an upgrade: programs that encrypt and programs that do not read each other's rows."""
    settings = SecretSettings(key_ring_file=str(tmp_path / "ring"), encrypt_headers=False)
    clear = secret_encryption(settings, randomness=RANDOMNESS)
    created = await sealed.ask("POST", SCHEDULES, json=ASKED)
    async with ApiHarness(encryption=clear, connection=sealed.api.connection) as other:
        path = f"{SCHEDULES}/{created['schedule_id']}"
        assert (await other.send("GET", path, key=sealed.key)).json == created
        late = (await other.send("POST", SCHEDULES, key=sealed.key, json=ASKED)).json
    assert sorted(text[:7] for text in sealed.headers()) == ['[["Auth', "sealed:"]
    assert await sealed.ask("GET", f"{SCHEDULES}/{late['schedule_id']}") == late
    rotation = RotateSecrets(
        store=sealed.api.storage.clients,
        crons=sealed.api.storage.crons,
        destinations=sealed.api.storage.destinations,
        encryption=clear,
    )
    assert (await rotation.run(dry=False, on_progress=lambda at, of: None)).crons == 0


async def test_headers_stay_in_the_clear_beside_programs_that_cannot_read_others(sealed: Sealed) -> None:
    older = True
    encryption = KeyRingEncryption(str(sealed.ring), randomness=RANDOMNESS, older_programs=lambda: older)
    assert encryption.seal_headers(ClientId("shop"), '[["a","b"]]') == '[["a","b"]]'
    older = False
    assert encryption.seal_headers(ClientId("shop"), '[["a","b"]]').startswith("sealed:1:")


async def test_a_text_of_another_client_cannot_be_decrypted(sealed: Sealed) -> None:
    text = sealed.encryption.seal_headers(ClientId("shop"), '[["a","b"]]')
    assert sealed.encryption.open_headers(ClientId("shop"), text) == '[["a","b"]]'
    assert text != sealed.encryption.seal_headers(ClientId("bank"), '[["a","b"]]')
