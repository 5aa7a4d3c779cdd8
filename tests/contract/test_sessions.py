"""Sessions of the console are found by the hash of their token until they end."""

import pytest

from cql.session import Session as CqlSession
from cql.storage import Storage
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.sessions import OfConfiguredKey, OfKey, OfOidc, Owner, Session
from scheduler_service.runtime.randomness import SystemRandomness
from tests.support.cassandra import hour_ahead, select_text

pytestmark = pytest.mark.asyncio(loop_scope="session")

BEGUN = UnixMillis(1_795_253_400_123)


def session(owner: Owner | None = None, *, milliseconds: int = 8 * 3_600_000) -> Session:
    token_hash = SystemRandomness().secret_bytes(32)
    return Session(token_hash, owner or OfKey("0a1b2c3d"), BEGUN, UnixMillis(BEGUN + milliseconds))


@pytest.mark.parametrize(
    "owner",
    [OfKey("0a1b2c3d"), OfConfiguredKey(bytes(range(256))), OfOidc("https://login.example", "Änn", ("ops", "ü"))],
    ids=lambda one: type(one),
)
async def test_a_session_comes_back_whole(storage: Storage, owner: Owner) -> None:
    one, other = session(owner), session()
    assert await storage.sessions.read_session(one.token_hash) is None
    await storage.sessions.insert_session(one)
    await storage.sessions.insert_session(other)
    assert await storage.sessions.read_session(one.token_hash) == one
    assert await storage.sessions.read_session(one.token_hash[:-1]) is None


async def test_an_ended_session_is_gone_and_no_other(storage: Storage) -> None:
    one, other = session(), session()
    await storage.sessions.insert_session(one)
    await storage.sessions.insert_session(other)
    for _ in range(2):
        await storage.sessions.delete_session(one.token_hash)
        assert await storage.sessions.read_session(one.token_hash) is None
    assert await storage.sessions.read_session(other.token_hash) == other


async def test_a_session_ends_that_a_process_with_a_clock_ahead_began(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, driver = session(), storage.connection
    with monkeypatch.context() as ahead:
        if isinstance(driver, CqlSession):
            ahead.setattr(driver._cluster, "timestamp_generator", hour_ahead)
        await storage.sessions.insert_session(one)
    assert await storage.sessions.read_session(one.token_hash) == one
    await storage.sessions.delete_session(one.token_hash)
    assert await storage.sessions.read_session(one.token_hash) is None


async def test_all_sessions_are_listed_that_can_be_judged(storage: Storage) -> None:
    one, other, later = session(), session(OfOidc("https://login.example", "a", ())), session()
    for each in (one, other):
        await storage.sessions.insert_session(each)
    values = (later.token_hash, '{"type": "later"}', later.created_at, later.expires_at, 3_600)
    await storage.connection.write("console_sessions.insert", values)
    listed = {each.token_hash: each for each in await storage.sessions.list_sessions()}
    assert (listed[one.token_hash], listed[other.token_hash]) == (one, other)
    assert later.token_hash not in listed


@pytest.mark.parametrize(("milliseconds", "seconds"), [(8 * 3_600_000, 8 * 3600), (1_500, 2), (1, 1), (0, 1)])
async def test_the_store_forgets_a_session_when_it_has_expired(
    storage: Storage, milliseconds: int, seconds: int
) -> None:
    """Never before; the use cases judge its end by the clock. The store in memory keeps it."""
    one = session(milliseconds=milliseconds)
    await storage.sessions.insert_session(one)
    if isinstance(driver := storage.connection, CqlSession):
        text = "SELECT TTL(owner), TTL(created_at), TTL(expires_at) FROM console_sessions WHERE token_hash = %s"
        for kept in await select_text(driver, text, (one.token_hash,)):
            assert all(seconds - 60 <= each <= seconds for each in kept)
        assert seconds < 60 or await storage.sessions.read_session(one.token_hash) == one
    else:
        assert await storage.sessions.read_session(one.token_hash) == one


async def test_a_later_version_may_add_to_what_is_stored(storage: Storage) -> None:
    """Processes of two versions serve the same browsers during an upgrade."""
    one = session()
    owner = '{"type": "key", "key_id": "0a1b2c3d", "from": "the future"}'
    values = (one.token_hash, owner, one.created_at, one.expires_at, 3_600)
    await storage.connection.write("console_sessions.insert", values)
    assert await storage.sessions.read_session(one.token_hash) == one


@pytest.mark.parametrize("owner", ['{"type": "later"}', "{}", "nonsense"])
async def test_an_owner_of_a_later_version_has_no_session(storage: Storage, owner: str) -> None:
    """An older process asks its visitor to log in; it does not fail."""
    one = session()
    values = (one.token_hash, owner, one.created_at, one.expires_at, 3_600)
    await storage.connection.write("console_sessions.insert", values)
    assert await storage.sessions.read_session(one.token_hash) is None
