"""Brings a keyspace to this program's schema, and refuses to run on one that does not fit.

    keyspace, bookkeeping tables --> lock --> home data centre --> each missing migration, recorded once applied

Migrations are numbered files; a number is applied once, in order, and never edited (its checksum is kept). Each
statement can be repeated harmlessly, so a migration that was interrupted is applied again.

A keyspace without a table gets `schema.cql`, which replaying the migrations equals, and then their records: 28 schema
changes instead of 48, 3 s instead of 5 on an embedded Cassandra. A run that is interrupted there leaves tables without
a record; the next one replays the migrations over them, which changes nothing in a table that has its last form.

They only expand: programs of the previous version go on working, and a keyspace may be ahead of a program. So an
upgrade is: migrate, then restart one process after the other. Removing something takes two releases. The first stops
using it, and has a migration that marks this, if only by its name. The next one has

    -- contract: programs must know 0009

at the head of the file that drops it. Before that is applied, 0009 is stored as the least migration that a program must
know, and programs that know less refuse to start. The operator must have ended those that still run.

Concurrent migrations exclude each other by a row in `schema_lock`, which is taken, renewed before each statement and
released by conditional writes. A holder that does not renew for `stale_seconds` of the waiting process's clock is
presumed dead. If it was only slow, its next renewal is rejected and it stops; the statement it may be executing can be
repeated. The bookkeeping tables are created before there is a lock, under ids that every process derives alike.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

from cql.errors import MigrationFailed, ProgramOutdated, SchemaOutdated, StoreRefused, WrongHome
from cql.session import Session
from cql.settings import StorageSettings
from cql.statement import load_statements, read_resource, split_script
from membership.conditional import APPLIED, Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.randomness import Randomness

T = TypeVar("T")

STALE_SECONDS = 60.0
"""How long a holder of the lock may go without renewing it. More than any one schema statement takes."""
MIGRATION_PAUSE_SECONDS = 0.5
MIGRATION_TRIES = 10
"""Attempts at a repeatable request, MIGRATION_PAUSE_SECONDS apart: concurrent migrations cause contention."""

_log = get_logger("minutehand.storage")
_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.cql")
_CONTRACT = re.compile(r"^-- contract: programs must know (\d{4})$", re.MULTILINE)
_CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \(")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    statements: tuple[str, ...]
    must_know: int | None = None
    """The migration that programs must know in order to run after this one; None: it only expands."""

    @property
    def checksum(self) -> str:
        """Covers the statements; comments and spacing may change."""
        return hashlib.sha256("\n".join(self.statements).encode()).hexdigest()


def load_migrations() -> Sequence[Migration]:
    """All migrations by version: 1, 2, 3 ... without a gap."""
    found = [
        parse_migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in (resources.files("cql") / "migrations").iterdir()
        if (match := _FILE_NAME.fullmatch(file.name)) is not None
    ]
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are numbered 0001, 0002, ... without a gap")
    return found


def parse_migration(version: int, name: str, source: str) -> Migration:
    """Parse one file. Raises ValueError if its contract would exclude the programs it comes with."""
    contract = _CONTRACT.search(source)
    must_know = None if contract is None else int(contract[1])
    if must_know is not None and must_know >= version:
        raise ValueError(f"migration {version:04} must name an earlier one: the release that has it goes on meanwhile")
    return Migration(version, name, tuple(split_script(source)), must_know)


async def migrate(
    settings: StorageSettings,
    *,
    clock: Clock,
    randomness: Randomness,
    migrations: Sequence[Migration] | None = None,
    stale_seconds: float = STALE_SECONDS,
) -> Sequence[Migration]:
    """Create or complete the keyspace; return what was applied. Idempotent, and safe from several processes at once.

    An existing keyspace keeps its replication: a change needs repairs that only an operator can run.
    Raises StoreUnavailable, StoreRefused, WrongHome, MigrationFailed.
    """
    session = await Session.open(settings, keyspace=None)
    try:
        await _create_keyspace(session, settings)
    finally:
        await session.close()
    session = await _patiently(clock, partial(_open_bookkeeping, settings), also=(SchemaOutdated, StoreRefused))
    try:
        lock = _Lock(session, clock=clock, holder=randomness.uuid4(), stale_seconds=stale_seconds)
        await lock.take()
        try:
            await _patiently(clock, lambda: _claim_home(session, settings.local_dc))
            rows = await _patiently(clock, lambda: session.select("schema.list_migrations", ()))
            done = {version: checksum for version, _, checksum in rows}
            if migrations is None:
                migrations = load_migrations()
                # A server whose list of tables is behind must not pass for an empty keyspace: the records decide too.
                if not done and await _is_empty(session, clock, settings.keyspace):
                    return await _apply_snapshot(session, lock, migrations)
            return await _apply_missing(session, lock, migrations, done)
        finally:
            await lock.release()
    finally:
        await session.close()


async def check_schema(session: Session, settings: StorageSettings, *, needed: int) -> None:
    """Raises SchemaOutdated if the keyspace lacks migrations of this program, ProgramOutdated if it has lost what this
    program uses, WrongHome for another data centre. `needed`: the last migration that this program knows."""
    try:
        await session.prepare(["schema.list_migrations", "schema.read_home", "schema.read_must_know"])
    except StoreRefused as error:
        raise SchemaOutdated(_outdated(settings.keyspace, "has no tables yet")) from error
    applied = max((version for version, _, _ in await session.select("schema.list_migrations", ())), default=0)
    if applied < needed:
        raise SchemaOutdated(_outdated(settings.keyspace, f"is at version {applied} of {needed}"))
    if (must_know := await _must_know(session)) > needed:
        raise ProgramOutdated(
            f"The keyspace {settings.keyspace} has dropped what this program uses: it knows migrations up to "
            f"{needed:04}, and must know {must_know:04}; run a newer release."
        )
    if applied > needed:
        _log.info("schema-ahead", version=applied, known=needed)
    for (home,) in await session.select("schema.read_home", ()):
        if home != settings.local_dc:
            raise _wrong_home(home, settings.local_dc)


def bookkeeping_script(keyspace: str) -> list[str]:
    """The bookkeeping tables, each under an id derived from the keyspace's name and its own."""
    return [
        f"{text} WITH id = {uuid5(NAMESPACE_URL, f'minutehand:{keyspace}/{table}')}"
        for table, text in _bookkeeping_tables().items()
    ]


def _bookkeeping_tables() -> dict[str, str]:
    """Each bookkeeping table's name with the statement that creates it."""
    texts = split_script(read_resource("bookkeeping.cql"))
    return {found[1]: text for text in texts if (found := _CREATE.match(text)) is not None}


async def _must_know(session: Session) -> int:
    """The least migration that a program must know; 0 while any program may run."""
    return max((int(value) for (value,) in await session.select("schema.read_must_know", ())), default=0)


async def _open_bookkeeping(settings: StorageSettings) -> Session:
    """A session on the new keyspace that can read the lock. A server that doesn't know the keyspace yet refuses."""
    session = await Session.open(settings, keyspace=settings.keyspace)
    try:
        await session.run_script(bookkeeping_script(settings.keyspace))
        await session.prepare([name for name in load_statements() if name.startswith("schema.")])
        await session.select("schema.read_lock", (), serial=True)
    except BaseException:
        await session.close()
        raise
    return session


async def _create_keyspace(session: Session, settings: StorageSettings) -> None:
    await session.run_script(
        [
            f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = "
            f"{{'class': 'NetworkTopologyStrategy', '{settings.local_dc}': {settings.replication_factor}}}"
        ]
    )


async def _claim_home(session: Session, local_dc: str) -> None:
    """The first migration decides; all later ones must name the same."""
    match await session.conditional((("schema.set_home", (local_dc,)),)):
        case Rejected([row]) if row["value"] != local_dc:
            raise _wrong_home(row["value"], local_dc)
        case Unknown(reason):
            raise StoreUnavailable(f"The home data centre could not be stored ({reason}); run the migration again.")
        case Applied() | Rejected():
            return


async def _is_empty(session: Session, clock: Clock, keyspace: str) -> bool:
    return await _patiently(clock, lambda: session.tables(keyspace)) <= _bookkeeping_tables().keys()


async def _apply_snapshot(session: Session, lock: "_Lock", migrations: Sequence[Migration]) -> Sequence[Migration]:
    must_know = max((one.must_know for one in migrations if one.must_know is not None), default=0)
    await _patiently(lock.clock, partial(_require, session, must_know))
    await _run(session, lock, split_script(read_resource("schema.cql")))
    for migration in migrations:
        await _record(session, lock, migration)
    return migrations


async def _apply_missing(
    session: Session, lock: "_Lock", migrations: Sequence[Migration], done: Mapping[int, str]
) -> Sequence[Migration]:
    """`done`: the checksums of those that were applied before."""
    applied = []
    for migration in migrations:
        if migration.version in done:
            if done[migration.version] != migration.checksum:
                raise MigrationFailed(
                    f"Migration {migration.version:04} ({migration.name}) was applied with other contents; "
                    "use the release that this keyspace was made with, or a new keyspace."
                )
            continue
        if migration.must_know is not None:
            await lock.renew()
            await _patiently(lock.clock, partial(_require, session, migration.must_know))
        await _run(session, lock, migration.statements)
        await _record(session, lock, migration)
        applied.append(migration)
    return applied


async def _run(session: Session, lock: "_Lock", statements: Sequence[str]) -> None:
    for text in statements:
        await lock.renew()
        await session.run_script([text])
    await lock.renew()


async def _record(session: Session, lock: "_Lock", migration: Migration) -> None:
    parameters = (migration.version, migration.name, migration.checksum)
    await _patiently(lock.clock, lambda: session.write("schema.record_migration", parameters))
    _log.info("migration-applied", version=migration.version, name=migration.name)


async def _require(session: Session, must_know: int) -> None:
    """Raise the requirement, never lower it: a later contract must not admit older programs again."""
    if must_know > await _must_know(session):
        await session.write("schema.set_must_know", (f"{must_know:04}",))


async def _patiently(
    clock: Clock, call: Callable[[], Awaitable[T]], *, also: tuple[type[MinutehandError], ...] = ()
) -> T:
    """The answer to a request that can be repeated."""
    passing: tuple[type[MinutehandError], ...] = (StoreUnavailable, *also)
    for _ in range(MIGRATION_TRIES - 1):
        try:
            return await call()
        except passing:
            await clock.sleep(MIGRATION_PAUSE_SECONDS)
    return await call()


def _outdated(keyspace: str, state: str) -> str:
    return f"The keyspace {keyspace} {state}; run `minutehand migrate` first."


def _wrong_home(home: str, local_dc: str) -> WrongHome:
    return WrongHome(
        f"This keyspace's home data centre is {home!r}, the configuration says {local_dc!r}; set local_dc to {home!r}."
    )


class _Lock:
    """The row in `schema_lock`. Without a holder it is free. Every change raises `beat`."""

    def __init__(self, session: Session, *, clock: Clock, holder: UUID, stale_seconds: float) -> None:
        self.clock = clock
        self._session = session
        self._holder = holder
        self._stale_seconds = stale_seconds
        self._beat = 0

    async def take(self) -> None:
        """Wait until it is ours. The answers of the writes are ignored: the next read shows the holder."""
        seen: tuple[UUID | None, int] | None = None
        since = self.clock.monotonic()
        while True:
            current = await self._read()
            if current is not None and current[0] == self._holder:
                self._beat = current[1]
                return
            if current != seen:
                seen, since = current, self.clock.monotonic()
            stale = self.clock.monotonic() - since >= self._stale_seconds
            if current is None:
                await self._session.conditional((("schema.take_lock", (self._holder,)),))
            elif current[0] is None or stale:
                await self._replace(self._holder, current)
            else:
                await self.clock.sleep(MIGRATION_PAUSE_SECONDS)

    async def renew(self) -> None:
        """Raises MigrationFailed when another process took it."""
        for _ in range(MIGRATION_TRIES):
            if await self._replace(self._holder, (self._holder, self._beat)):
                self._beat += 1
                return
            # Unknown or rejected: the row shows the holder.
            current = await self._read()
            if current is None or current[0] != self._holder:
                break
            self._beat = current[1]
        raise MigrationFailed("Another process took over the migration; see how that one ends, then run it again.")

    async def release(self) -> None:
        """Best effort: a lock that is not released becomes stale."""
        await self._replace(None, (self._holder, self._beat))

    async def _read(self) -> tuple[UUID | None, int] | None:
        rows = await _patiently(self.clock, lambda: self._session.select("schema.read_lock", (), serial=True))
        return (rows[0][0], rows[0][1]) if rows else None

    async def _replace(self, holder: UUID | None, current: tuple[UUID | None, int]) -> bool:
        item = ("schema.replace_lock", (holder, current[1] + 1, *current))
        return await self._session.conditional((item,)) == APPLIED
