"""The API over the in-memory store: use cases, application and server, with a clock that stands still."""

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import msgspec
import pytest
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry

from cql.memory.connection import InMemoryConnection
from cql.settings import StorageSettings
from cql.storage import Storage
from membership.identity import NodeIncarnation
from membership.settings import MembershipSettings
from scheduler_service.api.app import build_app
from scheduler_service.api.http.server import ApiServer
from scheduler_service.api.metrics import Exposition
from scheduler_service.api.services import ApiServices, build_services
from scheduler_service.api.settings import ApiSettings
from scheduler_service.console.routes import console_wire
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.domain.call_figures import CallFigures
from scheduler_service.domain.destination_figures import NO_FIGURES, NodeFigures
from scheduler_service.domain.errors import Conflict, NodeUnreachable
from scheduler_service.domain.ids import ClientId, Partition, RowKey
from scheduler_service.domain.options import Undecodable, decode_headers
from scheduler_service.domain.ports import SecretEncryption, TrialCaller
from scheduler_service.domain.ports.schedules import Answered
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.targets import NO_KINDS, TargetKinds
from scheduler_service.domain.trial_calls import TRIAL_HEADER, Exchange, Preview, TrialCall, TrialCallTimes
from scheduler_service.usecases.clients import create_built_in_clients
from scheduler_service.usecases.create_traces import CreateTraces
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.secret_encryption import NoEncryption
from scheduler_service.usecases.storage_probes import WatchAudits
from tests.support.api_document import api_document

ADMIN_KEY = "the-configured-administrators-key"
NOW = 1_795_253_400_000
"""2026-11-21T09:30:00Z, a whole minute."""


@dataclass(slots=True)
class ManualTimer:
    """A call scheduled for `at`, in monotonic seconds."""

    at: float
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that a test moves; moving it runs the timers that become due."""

    def __init__(self, wall_ms: int = NOW) -> None:
        self.now = wall_ms
        self.trusted = True
        self._timers: list[ManualTimer] = []

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        while due := sorted((timer for timer in self._timers if timer.at <= self.monotonic()), key=lambda one: one.at):
            self._timers.remove(due[0])
            if due[0].callback is not None:
                due[0].callback()

    def monotonic(self) -> float:
        return self.now / 1000

    def wall_ms(self) -> int:
        return self.now

    def system_ms(self) -> int:
        return self.now

    def wall_trusted(self) -> bool:
        return self.trusted

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.monotonic() + seconds, callback)
        self._timers.append(timer)
        return timer


class SeededRandomness:
    """Returns the same values for the same seed, secrets included."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.bits = self._random.getrandbits
        self.fraction = self._random.random
        self.secret_bytes = self._random.randbytes

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self.bits(128), version=4)


@dataclass(slots=True)
class RecordedHints:
    """Remembers every hint."""

    hints: list[tuple[Partition, RowKey]] = field(default_factory=list)

    def hint(self, partition: Partition, key: RowKey) -> None:
        self.hints.append((partition, key))


@dataclass(slots=True)
class RecordedNodes:
    """Remembers which incarnations were told to drain or to resume, and at which address. Those in `silent` do not
    answer; those in `last` refuse to drain unless they are forced. `figures`: what each node counted of a destination,
    `calls`: what it called.
    """

    drained: list[tuple[NodeIncarnation, str]] = field(default_factory=list)
    undrained: list[tuple[NodeIncarnation, str]] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    last: set[str] = field(default_factory=set)
    figures: dict[tuple[str, ClientId, str], NodeFigures] = field(default_factory=dict)
    calls: dict[str, CallFigures] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)
    """The clients that each node holds back."""

    async def drain(self, incarnation: NodeIncarnation, *, address: str, force: bool) -> None:
        self._reach(incarnation, address)
        if incarnation.node_id in self.last and not force:
            raise Conflict("last-node", "no other node takes pollers")
        self.drained.append((incarnation, address))

    async def undrain(self, incarnation: NodeIncarnation, *, address: str) -> None:
        self._reach(incarnation, address)
        self.undrained.append((incarnation, address))

    async def destination_figures(
        self, incarnation: NodeIncarnation, client_id: ClientId, name: str, *, address: str
    ) -> NodeFigures:
        self._reach(incarnation, address)
        return self.figures.get((incarnation.node_id, client_id, name), NO_FIGURES)

    async def call_figures(self, incarnation: NodeIncarnation, *, address: str) -> CallFigures:
        self._reach(incarnation, address)
        return self.calls.get(incarnation.node_id, CallFigures())

    async def held_back(
        self, incarnation: NodeIncarnation, client_ids: Sequence[ClientId], *, address: str
    ) -> Sequence[ClientId]:
        self._reach(incarnation, address)
        return [one for one in client_ids if one in self.held.get(incarnation.node_id, ())]

    def _reach(self, incarnation: NodeIncarnation, address: str) -> None:
        if incarnation.node_id in self.silent:
            raise NodeUnreachable(f"node {incarnation.node_id} does not answer at {address}")


class ComparedMembers(WatchMembers):
    """Members' clocks that agree, unless `compared` is False: then the comparison has not been made yet."""

    compared = True
    nodes_know: int | None = None
    """What all nodes know; None: what their heartbeats say."""

    @property
    def knows(self) -> int:
        return super().knows if self.nodes_know is None else self.nodes_know

    @property
    def first_offset_ms(self) -> int | None:
        known = super().first_offset_ms
        return 0 if known is None and self.compared else known


@dataclass(slots=True)
class RecordedTrialCalls:
    """Sends nothing: records each trial call and answers it 204."""

    sent: list[TrialCall] = field(default_factory=list)

    async def call(self, trial_call: TrialCall) -> Exchange:
        self.sent.append(trial_call)
        definition = trial_call.definition
        return Exchange(
            method=definition.method,
            url=definition.url,
            headers=(*decode_headers(definition.headers), ("webhook-id", str(definition.schedule_id)), TRIAL_HEADER),
            body=definition.body,
            started_at=definition.due,
            sent=True,
            delivered=True,
            addresses=("203.0.113.7:443",),
            connected_to="203.0.113.7:443",
            times=TrialCallTimes(resolved=0.004, connected=0.012, secured=0.031, first_byte=0.05, ended=0.051),
            status=204,
            http_version="2",
            response_headers=(("date", "Sat, 21 Nov 2026 09:30:00 GMT"), ("set-cookie", "session=of-the-receiver")),
        )

    def preview(self, trial_call: TrialCall) -> Preview | None:
        definition = trial_call.definition
        try:
            headers = decode_headers(definition.headers)
        except Undecodable:
            return None
        return Preview(
            method=definition.method,
            url=definition.url,
            headers=(*headers, ("webhook-id", str(definition.schedule_id))),
            body=definition.body,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def faults(self) -> dict[str, str]:
        """Messages of a 422 by JSON pointer. Asserts that every fault is named once."""
        listed = [(fault["pointer"], fault["detail"]) for fault in self.json["errors"]]
        assert len(set(listed)) == len(listed), listed
        return dict(listed)


class ApiHarness:
    """An API on a free loopback port over a store in memory. Its watcher of the members looks only when a test tells it
    to.

    `settings` are those of the API; `connection` and `storage` replace the stores' connection and settings. `stores`
    replaces the stores themselves, and the caller closes them. `kinds`: those of targets. `registry` is what `/metrics`
    shows.
    """

    def __init__(
        self,
        *,
        connection: InMemoryConnection | None = None,
        storage: StorageSettings | None = None,
        stores: Storage | None = None,
        trial_calls: TrialCaller | None = None,
        registry: CollectorRegistry | None = None,
        encryption: SecretEncryption | None = None,
        clock: ManualClock | None = None,
        kinds: TargetKinds = NO_KINDS,
        traces: CreateTraces | None = None,
        console: ConsoleSettings | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.console = console or ConsoleSettings()
        self.hints = RecordedHints()
        self.nodes = RecordedNodes()
        self.trial_calls = trial_calls or RecordedTrialCalls()
        self.connection = connection or InMemoryConnection()
        self.storage = stores or Storage.over(self.connection, settings=storage)
        self._owned = stores is None
        self.settings = ApiSettings(**{"admin_key": ADMIN_KEY, "port": 0, "metrics_max_age_seconds": 0, **settings})
        self.members = ComparedMembers(
            store=self.storage.members, clock=self.clock, settings=MembershipSettings(), on_crash=_never
        )
        self.audits = WatchAudits(store=self.storage.audits, clock=self.clock, on_crash=_never)
        self.services: ApiServices = build_services(
            storage=self.storage,
            clock=self.clock,
            randomness=SeededRandomness(),
            hints=self.hints,
            members=self.members,
            nodes=self.nodes,
            trial_calls=self.trial_calls,
            encryption=encryption or NoEncryption(),
            settings=self.settings,
            clock_limit_ms=MembershipSettings().clock_limit_ms,
            kinds=kinds,
            traces=traces,
            rights=self.console.rights,
        )
        age = self.settings.metrics_max_age_seconds
        self.exposition = Exposition(registry or CollectorRegistry(), clock=self.clock, max_age_seconds=age)
        self.server: ApiServer | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "ApiHarness":
        app = build_app(
            services=self.services,
            settings=self.settings,
            exposition=self.exposition,
            wires=console_wire(self.console, self.settings),
        )
        self.server = ApiServer(app, services=self.services, settings=self.settings)
        await self.server.start()
        self._session = aiohttp.ClientSession(base_url=f"http://127.0.0.1:{self.server.port}")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._session is not None
        assert self.server is not None
        await self._session.close()
        await self.server.stop()
        if self._owned:
            await self.storage.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        key: str | None = ADMIN_KEY,
        json: object = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request and return the whole answer, which must be as documented. `key` None: no Authorization
        header.
        """
        assert self._session is not None
        given = CIMultiDict(headers or {})
        if key is not None:
            given.setdefault("Authorization", f"Bearer {key}")
        if json is not None:
            data = msgspec.json.encode(json)
            given.setdefault("Content-Type", "application/json")
        async with self._session.request(method, path, data=data, headers=given, params=params) as response:
            reply = Reply(response.status, response.headers, await response.read())
        api_document().check_exchange(method, path, reply.status, reply.headers, reply.body)
        return reply

    async def add_built_in_clients(self) -> None:
        """Register the built-in clients, as an API process does at its start; only crons need them."""
        await create_built_in_clients(self.services.clients.register)

    async def register(self, client_id: str = "shop", *, quota: int = 3, settings: object = None) -> str:
        """Register a client and return a key of it."""
        reply = await self.send("PUT", f"/v1/clients/{client_id}", json={"poller_quota": quota, "settings": settings})
        assert reply.status in (200, 201), reply.body
        reply = await self.send("POST", f"/v1/clients/{client_id}/keys")
        assert reply.status == 201, reply.body
        return str(reply.json["key"])


def replace_insert(patch: pytest.MonkeyPatch, store: object, insert: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Replace a store's insert of single rows, in both forms in which it can be requested."""

    def begin_insert(self: object, definition: Definition, answered: Answered, **named: Any) -> Callable[[], object]:
        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                answered(cast(Exception | None, task.exception()))

        task = asyncio.get_running_loop().create_task(insert(self, definition, **named))
        task.add_done_callback(ended)
        return task.cancel

    patch.setattr(type(store), "insert", insert)
    patch.setattr(type(store), "begin_insert", begin_insert)


def _never(name: str, error: BaseException) -> None:
    raise AssertionError(f"the task {name} died") from error


def callback(**fields: object) -> dict[str, object]:
    """A valid callback, with `fields` replaced."""
    return {"url": "https://receiver.example/hook", **fields}


def schedule(**fields: object) -> dict[str, object]:
    """A valid schedule request, with `fields` replaced."""
    if "due" not in fields:
        fields.setdefault("delay_seconds", 90)
    return {"callback": callback(), **fields}


def cron(**fields: object) -> dict[str, object]:
    """A valid cron request, with `fields` replaced."""
    return {"expression": "30 2 * * *", "timezone": "Europe/Berlin", "callback": callback(), **fields}
