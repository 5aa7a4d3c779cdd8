"""The real connection: the driver, its threads, and the bridge from them to the event loop.

The only module with threads. The driver runs its sockets on its own thread and calls back there; answers are put into a
queue, and the loop is woken once for all that have gathered. Connecting, preparing and shutting down block, so they run
in the loop's executor.

No request is sent twice: no retries, no speculative executions. If the driver repeated a conditional write, the first
try could be applied and the second rejected, and the rejection would look like another writer's change.
"""

import asyncio
import calendar
import logging
import socket
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from cassandra import ConsistencyLevel, InvalidRequest, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, ResponseFuture
from cassandra.cluster import Session as DriverSession
from cassandra.connection import ConnectionException
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    HostStateListener,
    TokenAwarePolicy,
)
from cassandra.query import dict_factory, tuple_factory

from cql.binding import PROTOCOL_VERSION, BatchingProtocolHandler, Binder, bind_batch, read_quickly
from cql.concurrency_limiter import ConcurrencyLimiter, QueueFull
from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.errors import SchemaOutdated, WrongHome, nobody_answers, translate, unanswered_reason, why_not_let_in
from cql.login import login_of, tls_of
from cql.reachable import somebody_listens
from cql.settings import StorageSettings
from cql.statement import load_statements
from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.errors import Overloaded
from scheduler_service.runtime.logging import get_logger

T = TypeVar("T")

_log = get_logger("minutehand.storage")
# The driver logs a traceback for every failed connection attempt; `_NodeLog` logs what an operator needs.
logging.getLogger("cassandra").setLevel(logging.CRITICAL)

_APPLIED_COLUMN = "[applied]"
_RECONNECT_SECONDS = 0.5
_HEARTBEAT_SECONDS = 3
_PAGE_ROWS = 5000
_SERIAL = "serial"
_CONDITIONAL = "conditional"


class Session:
    """`cql.connection.Connection` over the driver. Created by `open`; bound to the event loop it was opened on."""

    def __init__(self, cluster: Cluster, driver: DriverSession, settings: StorageSettings) -> None:
        self._cluster = cluster
        self._driver = driver
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._statements = load_statements()
        self._conditional = frozenset(name for name, one in self._statements.items() if one.conditional)
        self._binders: dict[str, Binder] = {}
        self.limiter = ConcurrencyLimiter(places=settings.requests_in_flight, waiting=settings.requests_waiting)
        self._done: deque[Callable[[], None]] = deque()
        self._woken = False
        self._closed = False

    @classmethod
    async def open(cls, settings: StorageSettings, *, keyspace: str | None) -> "Session":
        """Connect, with or without a keyspace.

        Raises StoreUnavailable when no server answers, SchemaOutdated for a missing keyspace, WrongHome for an unknown
        data centre, StoreRefused for a wrong login or certificate, FilesUnusable where those can't be read.
        """
        cluster = _cluster(settings)
        if not await somebody_listens(settings):
            raise nobody_answers(settings)
        try:
            driver = await asyncio.to_thread(cluster.connect)
            if keyspace is not None:
                await asyncio.to_thread(_use, cluster, driver, keyspace)
        except BaseException as error:
            known = sorted({host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter})
            await asyncio.to_thread(cluster.shutdown)
            if reason := _why_not(error, settings, known):
                raise reason from error
            raise
        driver.default_fetch_size = _PAGE_ROWS
        driver.client_protocol_handler = BatchingProtocolHandler
        cluster.register_listener(_NodeLog())
        return cls(cluster, driver, settings)

    async def prepare(self, names: Sequence[str]) -> None:
        """Prepare statements. Others can't be used."""
        for name in names:
            text = self._statements[name].text
            prepared = await self._blocking(self._driver.prepare, text, about=name)
            read_quickly(prepared)
            self._binders[name] = Binder(prepared)

    async def run_script(self, statements: Sequence[str]) -> None:
        """Run CQL text, one statement after the other; for the schema only. Waits until all servers agree on it, even
        if nothing changed here: another process may have changed it.
        """
        for text in statements:
            await self._blocking(
                lambda text=text: self._driver.execute(text, timeout=self._settings.schema_timeout_seconds),
                about=" ".join(text.split()[:6]),
            )
        agree = self._cluster.control_connection.wait_for_schema_agreement
        if not await self._blocking(agree, about="schema agreement"):
            raise StoreUnavailable("The Cassandra servers don't agree on the schema; bring back those that are down.")

    async def tables(self, keyspace: str) -> set[str]:
        """The names of a keyspace's tables, from the server's own table of them."""
        text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
        rows = await self._blocking(lambda: self._driver.execute(text, (keyspace,)), about="list of tables")
        return {row[0] for row in rows}

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        bound = self._binders[name].bind(parameters)
        profile = _SERIAL if serial else consistency
        try:
            rows: list[tuple[Any, ...]] = await self._send(bound, profile)
        except Exception as error:
            raise translate(error, statement=name) or error from error
        return rows

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._check([(name, parameters)], conditional=False)
        try:
            await self._send(self._binders[name].bind(parameters), consistency)
        except Exception as error:
            raise translate(error, statement=name) or error from error

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._check(items, conditional=False)
        try:
            await self._send(self._bind(items), consistency)
        except Exception as error:
            raise translate(error, statement=_about(items)) or error from error

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        self._check(items, conditional=True)
        bound = self._bind(items)
        try:
            rows: list[Mapping[str, Any]] = await self._send(bound, _CONDITIONAL)
        except Overloaded:
            return Unknown("overloaded")
        except Exception as error:
            if (reason := unanswered_reason(error)) is not None:
                return Unknown(reason)
            raise translate(error, statement=_about(items)) or error from error
        if rows and rows[0][_APPLIED_COLUMN]:
            return APPLIED
        return Rejected([_met(row) for row in rows if len(row) > 1])

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        key = self._binders[name].routing_key(parameters)
        return frozenset(self._cluster.metadata.get_replicas(self._driver.keyspace, key))

    def nodes(self) -> list[tuple[str, int]]:
        """Address and port of every server of the home data centre, up or down, as the driver connects to them."""
        known = self._cluster.metadata.all_hosts()
        return sorted(host.endpoint.resolve() for host in known if host.datacenter == self._settings.local_dc)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._cluster.shutdown)

    def _check(self, items: Sequence[Item], *, conditional: bool) -> None:
        if any(name in self._conditional for name, _ in items) is not conditional:
            raise ValueError(f"conditional and plain writes have calls of their own: {_about(items)}")

    def _bind(self, items: Sequence[Item]) -> Any:
        if len(items) == 1:
            name, parameters = items[0]
            return self._binders[name].bind(parameters)
        return bind_batch([(self._binders[name], parameters) for name, parameters in items])

    async def _send(self, bound: Any, profile: str) -> Any:
        """Send it and return all rows, none for writes. Raises what the driver raises, and Overloaded."""
        await self._enter()
        in_time = True
        try:
            answer: asyncio.Future[list[Any]] = self._loop.create_future()
            future = self._driver.execute_async(bound, execution_profile=profile)
            self._listen(future, answer)
            try:
                return await answer
            except OperationTimedOut:
                in_time = False
                raise
            finally:
                if not answer.cancelled():
                    _break_cycle(future)
                # An exception's traceback refers to this frame, and `answer` to the exception: break that cycle.
                del future, answer
        finally:
            self.limiter.answered(in_time, now=self._loop.time())
            self.limiter.leave()

    async def _enter(self) -> None:
        try:
            turn = self.limiter.enter()
        except QueueFull as error:
            raise Overloaded("Too many requests to the store are waiting; try again a little later.") from error
        if turn is not None:
            try:
                await turn
            except asyncio.CancelledError:
                self.limiter.left_queue(turn)
                raise

    def _listen(self, future: ResponseFuture, answer: asyncio.Future[list[Any]]) -> None:
        """Bring the results of the driver's thread to the loop."""
        gathered: list[Any] = []
        future.add_callbacks(
            callback=lambda rows: self._call(lambda: _received(future, gathered, rows, answer)),
            errback=lambda error: self._call(lambda: _failed(answer, error)),
        )

    def _call(self, done: Callable[[], None]) -> None:
        """Have the loop run `done`; callable on any thread. Calls that gather until the loop runs share one wake-up."""
        self._done.append(done)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed, so no caller is waiting
                self._done.clear()

    def _drain(self) -> None:
        # Clear the mark first, then run what is there: later additions wake the loop again. So a flood of answers does
        # not starve the loop's other work, such as the answers of another session.
        self._woken = False
        for _ in range(len(self._done)):
            self._done.popleft()()

    async def _blocking(self, call: Callable[..., T], *arguments: Any, about: str) -> T:
        try:
            return await asyncio.to_thread(call, *arguments)
        except Exception as error:
            raise translate(error, statement=about) or error from error


class _NodeLog(HostStateListener):  # type: ignore[misc]
    """Logs one line when a server comes or goes. Called on the driver's threads."""

    def on_up(self, host: Any) -> None:
        _log.info("storage-node-up", address=host.address)

    def on_down(self, host: Any) -> None:
        _log.warning("storage-node-down", address=host.address)

    def on_add(self, host: Any) -> None:
        _log.info("storage-node-added", address=host.address)

    def on_remove(self, host: Any) -> None:
        _log.info("storage-node-removed", address=host.address)


def _use(cluster: Cluster, driver: DriverSession, keyspace: str) -> None:
    """Use the keyspace. A server may not know it yet, though the one that the metadata came from does."""
    missing = SchemaOutdated(f"There is no keyspace {keyspace} yet; run `minutehand migrate` first.")
    if keyspace not in cluster.metadata.keyspaces:
        raise missing
    try:
        driver.set_keyspace(keyspace)
    except (InvalidRequest, ConnectionException) as error:
        if "does not exist" not in str(error):
            raise
        raise missing from error


def _why_not(error: BaseException, settings: StorageSettings, datacenters: Sequence[str]) -> MinutehandError | None:
    """Why there is no connection, as an error that an operator can act upon."""
    if datacenters and settings.local_dc not in datacenters:
        return WrongHome(
            f"The cluster has no data centre {settings.local_dc!r}; set local_dc to one of: {', '.join(datacenters)}."
        )
    where = ", ".join(settings.contact_points)
    if (refused := why_not_let_in(error, settings)) is not None:
        return refused
    if unanswered_reason(error) is not None:
        return nobody_answers(settings)
    return translate(error, statement=f"the connection to {where}")


def _received(future: ResponseFuture, gathered: list[Any], rows: list[Any] | None, answer: asyncio.Future[Any]) -> None:
    """Take in one page. Runs on the loop, as the driver's thread must not ask for the next page: that may wait for a
    free stream."""
    if rows:
        gathered.extend(rows)
    if future.has_more_pages and not answer.done():
        future.start_fetching_next_page()
    elif not answer.done():
        answer.set_result(gathered)


def _break_cycle(future: ResponseFuture) -> None:
    """Break the reference cycles of an ended request: it refers to itself by its timer and our callbacks, and the
    driver keeps timers until their time. Each future would stay for `request_timeout_seconds` with all that was sent,
    then wait for a rare garbage collection: 20 MB a minute in a node that makes 300 calls a second."""
    future.clear_callbacks()
    timer, future._timer = future._timer, None
    if timer is not None:
        timer.callback = _nothing


def _nothing() -> None:
    pass


def _failed(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _met(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of a rejection. Cassandra chooses its columns, so instants come as naive UTC datetimes."""
    return {
        name: _unix_ms(value) if isinstance(value, datetime) else value
        for name, value in row.items()
        if name != _APPLIED_COLUMN
    }


def _unix_ms(value: datetime) -> int:
    return calendar.timegm(value.timetuple()) * 1000 + value.microsecond // 1000


def _about(items: Sequence[Item]) -> str:
    return " + ".join(dict.fromkeys(name for name, _ in items))


def _cluster(settings: StorageSettings) -> Cluster:
    def profile(consistency: int, rows: Callable[..., Any] = tuple_factory) -> ExecutionProfile:
        return ExecutionProfile(
            load_balancing_policy=balancing,
            retry_policy=FallthroughRetryPolicy(),
            consistency_level=consistency,
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
            request_timeout=settings.request_timeout_seconds,
            row_factory=rows,
        )

    balancing = TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=settings.local_dc))
    quorum = profile(ConsistencyLevel.LOCAL_QUORUM)
    return Cluster(
        contact_points=list(settings.contact_points),
        port=settings.port,
        protocol_version=PROTOCOL_VERSION,
        compression=False,
        auth_provider=login_of(settings),
        ssl_context=tls_of(settings),
        connection_class=_reactor(),
        execution_profiles={
            EXEC_PROFILE_DEFAULT: quorum,
            "LOCAL_QUORUM": quorum,
            "LOCAL_ONE": profile(ConsistencyLevel.LOCAL_ONE),
            "EACH_QUORUM": profile(ConsistencyLevel.EACH_QUORUM),
            _SERIAL: profile(ConsistencyLevel.LOCAL_SERIAL),
            _CONDITIONAL: profile(ConsistencyLevel.LOCAL_QUORUM, dict_factory),
        },
        reconnection_policy=ConstantReconnectionPolicy(_RECONNECT_SECONDS, max_attempts=None),
        # Without it a batch waits 40 ms for the acknowledgement of its first segment (Nagle and delayed ACK).
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        connect_timeout=settings.connect_timeout_seconds,
        control_connection_timeout=settings.connect_timeout_seconds,
        max_schema_agreement_wait=settings.schema_timeout_seconds,
        idle_heartbeat_interval=_HEARTBEAT_SECONDS,
        idle_heartbeat_timeout=_HEARTBEAT_SECONDS,
        monitor_reporting_enabled=False,
        application_name="minutehand",
    )


def _reactor() -> Any:
    """libev where the driver's wheel carries it, else the driver's own asyncio thread; never asyncore."""
    try:
        from cassandra.io.libevreactor import LibevConnection
    except Exception:
        from cassandra.io.asyncioreactor import AsyncioConnection

        return AsyncioConnection
    return LibevConnection
