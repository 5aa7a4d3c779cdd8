"""The aiohttp application, built from the route table."""

import re
from collections.abc import Iterable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from scheduler_service.api.bigben import routes as bigben
from scheduler_service.api.goscheduler import routes as goscheduler
from scheduler_service.api.http.cors import CrossOrigin
from scheduler_service.api.http.endpoint import Surroundings, endpoint, method_not_allowed, moved, not_found
from scheduler_service.api.http.query import PATH_PARTS
from scheduler_service.api.http.route import Route
from scheduler_service.api.http.timeouts import Deadlines
from scheduler_service.api.http.wire import WireForm
from scheduler_service.api.metrics import ApiMetrics, Exposition
from scheduler_service.api.openapi.document import documents_of
from scheduler_service.api.plain_creates import PlainCreates
from scheduler_service.api.resources import ROUTES
from scheduler_service.api.resources.schedules import CREATE
from scheduler_service.api.services import ApiServices
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.metrics import PageMaker

PLAIN_CREATES: Final = web.AppKey("plain_creates", PlainCreates)
_MOVED: Final = {"/": "docs", "/docs/": "../docs"}
"""Paths that people type, and where they lead, relative to them: a proxy may serve the API below a path."""
RoutedWire = tuple[WireForm, tuple[Route, ...]]
_VARIABLE = re.compile(r"\{(\w+)\}")


def build_app(
    *,
    services: ApiServices,
    settings: ApiSettings,
    exposition: Exposition | None = None,
    shared: PageMaker | None = None,
    routes: tuple[Route, ...] = ROUTES,
    wires: Iterable[RoutedWire] = (),
) -> web.Application:
    """The application. `exposition` holds the metrics; None: only this application's own. `shared`: what `/metrics`
    shows instead of it alone. `wires`: more of them than the settings turn on."""
    if exposition is None:
        exposition = Exposition(CollectorRegistry(), clock=services.clock, max_age_seconds=0)
    metrics = ApiMetrics(exposition.registry, storage=services.health.storage)
    around = Surroundings(
        services=services,
        settings=settings,
        metrics=metrics,
        deadlines=Deadlines(settings.request_timeout_seconds, clock=services.clock),
        documents=documents_of(routes),
        exposition=shared or exposition,
    )
    app = web.Application()
    CrossOrigin(settings.allowed_origins).allow_in(app)
    for path, methods in _by_path(routes).items():
        _add_path(app, path, methods, around)
    for wire, its_routes in (*wires_of(settings), *wires):
        _add_wire(app, wire, its_routes, around)
    for path, location in _MOVED.items():
        resource = app.router.add_resource(path)
        for method in ("GET", "HEAD"):
            resource.add_route(method, moved(path, location, around), expect_handler=_expect_later)
    everything_else = app.router.add_resource("/{rest:.*}")
    everything_else.add_route("*", not_found(around), expect_handler=_expect_later)

    plain = PlainCreates(services=services, settings=settings, series=metrics.route(CREATE.method, CREATE.path))
    app[PLAIN_CREATES] = plain

    async def forget_deadlines(app: web.Application) -> None:
        around.deadlines.close()
        await plain.close()

    app.on_cleanup.append(forget_deadlines)
    return app


def wires_of(settings: ApiSettings) -> list[RoutedWire]:
    """The wires of other systems that the operator has turned on, each with its routes."""
    wires: list[RoutedWire] = []
    if (wire := bigben.wire(settings.bigben)) is not None:
        wires.append((wire, bigben.ROUTES))
    if settings.goscheduler.on:
        wires.append((goscheduler.WIRE, goscheduler.ROUTES))
    return wires


def _by_path(routes: Iterable[Route]) -> dict[str, list[Route]]:
    found: dict[str, list[Route]] = {}
    for route in routes:
        found.setdefault(route.path, []).append(route)
    return found


def _add_wire(app: web.Application, wire: WireForm, routes: Iterable[Route], around: Surroundings) -> None:
    for path, methods in _by_path(routes).items():
        _add_path(app, path, methods, around, wire)
    everything_else = app.router.add_resource(wire.prefix + "/{rest:.*}")
    everything_else.add_route("*", not_found(around, wire), expect_handler=_expect_later)


def _add_path(
    app: web.Application, path: str, routes: Iterable[Route], around: Surroundings, wire: WireForm | None = None
) -> None:
    resource = app.router.add_resource(_VARIABLE.sub(lambda part: f"{{{part[1]}:{_matches(part[1])}}}", path))
    allowed: list[str] = []
    for route in routes:
        handle = endpoint(route, around, wire)
        resource.add_route(route.method, handle, expect_handler=_expect_later)
        allowed.append(route.method)
        if route.method == "GET":
            resource.add_route("HEAD", handle, expect_handler=_expect_later)
            allowed.append("HEAD")
    methods = ", ".join(allowed)
    refuse = CrossOrigin(around.settings.allowed_origins).answer_preflights(
        methods, method_not_allowed(around, methods, wire)
    )
    resource.add_route("*", refuse, expect_handler=_expect_later)


def _matches(part: str) -> str:
    """The form of a variable part; those of other schedulers' paths are not declared."""
    declared = PATH_PARTS.get(part)
    return "[^/]+" if declared is None else declared.matches


async def _expect_later(request: web.Request) -> None:
    """`Expect: 100-continue` is answered by `RequestContext.read`: a request refused before that sends no body."""
