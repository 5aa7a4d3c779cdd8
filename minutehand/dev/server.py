"""The server: the API and console of the present world, and under `/dev/` what moves and replaces it.

    GET  /dev/clock                  where it stands, and whether it follows real time
    POST /dev/clock:advance          {"seconds": 3600}
    POST /dev/clock:advance-to       {"instant": "2026-12-24T18:00:00Z"}
    POST /dev/clock:run-until-idle   {"within_seconds": 86400}
    POST /dev/clock:freeze           it stands from here on
    POST /dev/clock:follow           it goes as real time does from here on
    GET  /dev/calls                  every call that was made; ?receiver=, ?client_id=, ?schedule_id= choose
    DELETE /dev/calls                forget them
    PUT  /dev/receiver/{name}        {"status": 503, "times": 2}, or a list of such
    GET  /dev/state                  everything that is stored
    PUT  /dev/state                  go on from what was stored then
    DELETE /dev/state                begin again

They need no key, because the server listens on this machine only, and nothing is kept; requests from web pages are
refused.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from cql.memory.connection import InMemoryConnection
from minutehand.config import Settings
from minutehand.dev.clock import VirtualClock
from minutehand.dev.loop import DevLoop
from minutehand.dev.receivers import PATH, Answer, Receivers
from minutehand.dev.state import State, dump, load
from minutehand.dev.travel import Traveller
from minutehand.dev.world import World
from minutehand.errors import LocalError
from scheduler_service.api.http.endpoint import problem_response, request_id_of
from scheduler_service.api.http.wire import refuse_pages
from scheduler_service.api.problems import problem
from scheduler_service.console.rendering import show_notice
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.instants import LAST_INSTANT, format_instant, parse_instant
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.authenticate import Forbidden

CLIENT: Final = "dev"
POLLERS: Final = 16
"""Enough for 1,600 creates a second, in real time."""
HEADER: Final = "Minutehand-Dev"
NOTHING_KEPT: Final = "nothing is kept"
MAX_STATE_BYTES: Final = 1 << 28
MOST_SECONDS: Final = 10 * 366 * 86_400.0
_CHOICES: Final = ("receiver", "client_id", "schedule_id")


class _MoveBy(msgspec.Struct, forbid_unknown_fields=True):
    seconds: Annotated[float, Meta(ge=0, le=MOST_SECONDS)]


class _MoveTo(msgspec.Struct, forbid_unknown_fields=True):
    instant: str


class _UntilIdle(msgspec.Struct, forbid_unknown_fields=True):
    within_seconds: Annotated[float, Meta(gt=0, le=MOST_SECONDS)] = 366 * 86_400.0


class _Refused(Exception):
    """What a request to `/dev/` asks for can't be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a user needs to begin with."""

    url: str
    admin_key: str = field(repr=False)
    client_id: str
    client_key: str = field(repr=False)
    signing_secret: str = field(repr=False)


class DevServer:
    """Runs from `start` to `stop`. `fail(reason)` ends the process. `follows`: whether its clock follows real time at
    first, and after a reset. `starts_ms`: where its clock begins then (Unix milliseconds); None: at the present."""

    def __init__(
        self,
        *,
        settings: Settings,
        real: Clock,
        follows: bool,
        starts_ms: int | None,
        loop: DevLoop,
        fail: Callable[[str], None],
    ) -> None:
        self._settings, self._real, self._follows, self._starts_ms = settings, real, follows, starts_ms
        self._loop, self._fail = loop, fail
        self._receivers = Receivers()
        self._turn = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self._url = ""
        self._world: World
        self._traveller: Traveller
        self._first: bytes
        self._known: tuple[str, str]

    async def start(self) -> Access:
        """Return when it can be asked."""
        api = self._settings.api
        assert api is not None
        app = web.Application(client_max_size=MAX_STATE_BYTES)
        self._add_routes(app)
        app.on_response_prepare.append(_say_nothing_is_kept)
        show_notice("This is a server for tests, whose time can be moved: nothing is kept.")
        runner = self._runner = web.AppRunner(
            app,
            access_log=None,
            auto_decompress=False,
            shutdown_timeout=1.0,
            max_line_size=api.max_header_bytes,
            max_field_size=api.max_header_bytes,
        )
        await runner.setup()
        await web.TCPSite(runner, api.host, api.port).start()
        host, port = runner.addresses[0][:2]
        self._url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        await self._begin(InMemoryConnection(), self._first_ms)
        return await self._register(api.admin_key)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            await self._end()

    async def _register(self, admin_key: str) -> Access:
        """The client to begin with, which is there after each reset, too."""
        services, client_id = self._world.services, ClientId(CLIENT)
        registered = await services.clients.register(client_id, poller_quota=POLLERS, settings=None)
        key = await services.keys.create(client_id, scope=Scope.MANAGE, name="the first")
        secret = registered.secret
        assert secret is not None
        self._first = msgspec.json.encode(self._dump())
        return Access(
            url=self._url,
            admin_key=admin_key,
            client_id=CLIENT,
            client_key=key.text,
            signing_secret=secret.text,
        )

    # Worlds.

    async def _begin(self, memory: InMemoryConnection, start_ms: int) -> None:
        clock = VirtualClock(start_ms=start_ms, real=self._real)
        self._world = World(
            settings=self._settings,
            memory=memory,
            clock=clock,
            real=self._real,
            receivers=self._receivers,
            own_url=self._url,
            fail=self._fail,
        )
        await self._world.open()
        self._traveller = Traveller(self._world, self._loop)
        await self._traveller.drive(self._world.start())
        self._world.app.on_response_prepare.append(_say_nothing_is_kept)
        self._world.app.freeze()
        if self._follows:
            clock.follow()

    async def _end(self) -> None:
        self._world.clock.freeze()
        await self._traveller.drive(self._world.stop())
        await self._world.close()

    @property
    def _first_ms(self) -> int:
        return self._real.wall_ms() if self._starts_ms is None else self._starts_ms

    def _dump(self) -> State:
        return dump(self._world.memory, now=self._now)

    @property
    def _now(self) -> str:
        return format_instant(self._world.clock.wall_ms())

    async def _replace(self, state: State, start_ms: int) -> None:
        memory = InMemoryConnection()
        load(state, memory)
        await self._end()
        self._receivers.clear()
        await self._begin(memory, start_ms)

    # Requests.

    def _add_routes(self, app: web.Application) -> None:
        router = app.router
        for method, path, handler in (
            ("GET", "/dev/clock", self._show_clock),
            ("POST", "/dev/clock:advance", self._advance),
            ("POST", "/dev/clock:advance-to", self._advance_to),
            ("POST", "/dev/clock:run-until-idle", self._run_until_idle),
            ("POST", "/dev/clock:freeze", self._freeze),
            ("POST", "/dev/clock:follow", self._follow),
            ("GET", "/dev/calls", self._show_calls),
            ("DELETE", "/dev/calls", self._forget_calls),
            ("PUT", PATH + "{name}", self._plan),
            ("GET", "/dev/state", self._show_state),
            ("PUT", "/dev/state", self._load_state),
            ("DELETE", "/dev/state", self._reset),
        ):
            router.add_route(method, path, self._judged(handler))
        router.add_route("*", PATH + "{name}", self._take_call)
        router.add_route("*", "/{rest:.*}", self._ask_world)

    def _judged(self, handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        async def judged(request: web.Request) -> web.StreamResponse:
            try:
                refuse_pages(request, any_host=False)
                async with self._turn:
                    answer: web.StreamResponse = await handler(request)
                    return answer
            except Forbidden as error:
                return self._problem(request, "forbidden", str(error))
            except (_Refused, LocalError) as error:
                return self._problem(request, "invalid", str(error))

        return judged

    def _problem(self, request: web.Request, kind: str, detail: str) -> web.Response:
        request_id = request_id_of(request, self._world.services)
        return problem_response(problem(kind, detail, request_id=request_id))

    async def _ask_world(self, request: web.Request) -> web.StreamResponse:
        return await self._world.app._handle(request)

    async def _show_clock(self, request: web.Request) -> web.Response:
        return _json({"now": self._now, "mode": "following" if self._world.clock.following else "frozen"})

    async def _advance(self, request: web.Request) -> web.Response:
        asked = await _read(request, _MoveBy)
        return await self._moved(self._world.clock.wall_ms() + round(asked.seconds * 1000.0))

    async def _advance_to(self, request: web.Request) -> web.Response:
        asked = await _read(request, _MoveTo)
        try:
            instant = parse_instant(asked.instant)
        except ValueError as error:
            raise _Refused(f"instant: {error}") from None
        now_ms = self._world.clock.wall_ms()
        if not now_ms <= instant <= now_ms + MOST_SECONDS * 1000.0:
            raise _Refused(f"instant: it must be from {self._now} on, and at most ten years later")
        return await self._moved(instant)

    async def _moved(self, to_ms: int) -> web.Response:
        """Move the clock, and answer where it stands then and what was called on the way."""
        if to_ms > LAST_INSTANT:
            raise _Refused(f"the clock ends at {format_instant(LAST_INSTANT)}")
        made = self._receivers.made
        with self._world.clock.standing():
            await self._traveller.advance(to_ms)
        return self._told(made)

    def _told(self, made: int, **more: Any) -> web.Response:
        calls = self._receivers.since(made)
        return _json({"now": self._now, **more, "calls": [call.in_short() for call in calls]})

    async def _run_until_idle(self, request: web.Request) -> web.Response:
        asked = await _read(request, _UntilIdle)
        clock, made = self._world.clock, self._receivers.made
        until_ms = clock.wall_ms() + round(asked.within_seconds * 1000.0)
        with clock.standing():
            idle = await self._traveller.until_idle(min(until_ms, LAST_INSTANT))
        return self._told(made, idle=idle)

    async def _freeze(self, request: web.Request) -> web.Response:
        self._world.clock.freeze()
        return await self._show_clock(request)

    async def _follow(self, request: web.Request) -> web.Response:
        self._world.clock.follow()
        return await self._show_clock(request)

    async def _show_calls(self, request: web.Request) -> web.Response:
        chosen = {name: request.query[name] for name in _CHOICES if name in request.query}
        calls = [call for call in self._receivers.calls if all(getattr(call, name) == chosen[name] for name in chosen)]
        return _json({"calls": calls})

    async def _forget_calls(self, request: web.Request) -> web.Response:
        self._receivers.calls.clear()
        return web.Response(status=204)

    async def _plan(self, request: web.Request) -> web.Response:
        asked = await _read(request, Answer | list[Answer])
        self._receivers.plan(request.match_info["name"], asked if isinstance(asked, list) else [asked])
        return web.Response(status=204)

    async def _take_call(self, request: web.Request) -> web.StreamResponse:
        """A call over a socket, such as a trial call's or one of the user's own."""
        name = request.match_info["name"]
        answer = self._receivers.answer(name)
        self._receivers.record(
            at_ms=self._world.clock.wall_ms(),
            method=request.method,
            url=str(request.url),
            headers=tuple(request.headers.items()),
            body=await request.read(),
            status=None if answer.error else answer.status,
            error="reset" if answer.error else None,
            receiver=name,
        )
        if answer.error and request.transport is not None:
            request.transport.abort()
        return web.Response(status=answer.status, headers=answer.headers, text=answer.body)

    async def _show_state(self, request: web.Request) -> web.Response:
        await self._traveller.settle()
        return _json(self._dump())

    async def _load_state(self, request: web.Request) -> web.Response:
        state = await _read(request, State)
        try:
            start_ms = parse_instant(state.now)
        except ValueError as error:
            raise _Refused(f"now: {error}") from None
        if not 0 <= start_ms <= LAST_INSTANT - MOST_SECONDS * 1000.0:
            raise _Refused("now: must be from 1970 on, and ten years before the clock ends")
        await self._replace(state, start_ms)
        return await self._show_clock(request)

    async def _reset(self, request: web.Request) -> web.Response:
        await self._replace(msgspec.json.decode(self._first, type=State), self._first_ms)
        return await self._show_clock(request)


async def _say_nothing_is_kept(request: web.Request, response: web.StreamResponse) -> None:
    response.headers[HEADER] = NOTHING_KEPT


async def _read(request: web.Request, type_: Any) -> Any:
    """The body of a request. Raises _Refused."""
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=type_)
    except msgspec.DecodeError as error:
        raise _Refused(f"the body can't be read: {error}") from None


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
