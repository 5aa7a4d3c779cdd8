"""What is overdue: of a client, and of all clients."""

from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.backlogs import ClientBacklog, HeldBy, Overdue
from scheduler_service.domain.clients import LatePolicy, Scope
from scheduler_service.domain.ids import ClientId, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.minute_loads import ALL_CLIENTS
from scheduler_service.usecases.backlog import rank

MAX_BACKLOG_CLIENTS: Final = 100


class _Cursor(Cursor, frozen=True, tag="backlog-1"):
    rows: int
    client_id: ClientId


_LISTING: Final = Listing(_Cursor, most=MAX_BACKLOG_CLIENTS, default=20)
BACKLOG_PARAMETERS: Final = _LISTING.parameters

HeldByName = Annotated[str, Meta(extra_json_schema={"enum": list(HeldBy)})]


class OverdueAges(msgspec.Struct, frozen=True, kw_only=True):
    """Overdue schedules by how long ago they were due, in whole minutes: each counts in the first that fits."""

    under_1_minute: int
    under_10_minutes: int
    under_1_hour: int
    under_6_hours: int
    under_1_day: int
    older: int


class OverdueView(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules due in the past that have not ended, without those that wait for a retry."""

    rows: int
    """Counted and estimated ones."""
    counted: int
    """Those that were read."""
    estimated: int
    """The others, by what processes have counted when they placed them."""
    exact: bool
    """Whether all were read."""
    ages: OverdueAges
    oldest: Instant | None
    """The minute in which the oldest ones were due; null: there are none."""
    open_minutes: int
    """Minutes of pollers that are not settled."""


class BacklogView(msgspec.Struct, frozen=True, kw_only=True):
    """What of a client is overdue, and why."""

    client_id: str
    overdue: OverdueView
    pollers: int
    pollers_behind: int
    """Pollers with unsettled minutes beyond those that are being called."""
    held_by: list[HeldByName]
    """Why it is not called, or not faster: the client is suspended, or paused; pollers have no living owner (no-owner);
    calls to some destination are paused, or held back because their receiver only failed (receiver-open), and such
    calls are not overdue; a minute has more than the quota guarantees (quota); nodes keep to
    an overdue rate (overdue-rate); nodes are working through it (recovery)."""
    late_policy: LatePolicy
    """That of the client's settings. Schedules and crons may have their own."""
    to_skip: int
    """How many of the rows that policy will skip."""
    at_most_once: bool
    """Whether calls in doubt are dropped, by the client's settings."""
    overdue_per_second: float | None
    """Calls a second of those that are more than a minute late, by the client's overdue rate or that of all clients,
    whichever is lower; null: as fast as limits permit."""
    drain_seconds: int | None
    """Until nothing is overdue, if nodes call what is guaranteed beyond what becomes due, within the overdue rate;
    null: nothing is called."""


class ClusterBacklogView(msgspec.Struct, frozen=True, kw_only=True):
    """What is overdue of all clients with a poller that is behind, as of some seconds ago."""

    overdue: OverdueView
    """The sum over all clients."""
    clients: int
    """How many have overdue schedules."""
    drain_seconds: int | None
    """Until nothing is overdue, if live nodes call what they are sized for; null: nothing is called."""
    items: list[BacklogView]
    """Clients, those with most overdue schedules first."""
    next_cursor: CursorText | None = None


def overdue_view(overdue: Overdue) -> OverdueView:
    return OverdueView(
        rows=overdue.rows,
        counted=sum(overdue.counted),
        estimated=sum(overdue.estimated),
        exact=overdue.exact,
        ages=OverdueAges(**dict(zip(OverdueAges.__struct_fields__, overdue.by_age, strict=True))),
        oldest=None if overdue.oldest is None else format_instant(minute_start(overdue.oldest)),
        open_minutes=overdue.minutes,
    )


def backlog_view(backlog: ClientBacklog) -> BacklogView:
    return BacklogView(
        client_id=backlog.client_id,
        overdue=overdue_view(backlog.overdue),
        pollers=backlog.pollers,
        pollers_behind=backlog.behind,
        held_by=list(backlog.held_by),
        late_policy=backlog.late_policy,
        to_skip=backlog.to_skip,
        at_most_once=backlog.at_most_once,
        overdue_per_second=backlog.overdue_per_second,
        drain_seconds=backlog.drain_seconds,
    )


async def get_backlog(context: RequestContext) -> web.Response:
    return json_response(backlog_view(await context.services.cluster.backlog.of_client(context.client)))


async def get_cluster_backlog(context: RequestContext) -> web.Response:
    cursor, limit = _LISTING.read(ALL_CLIENTS, context.query())
    after = None if cursor is None else (cursor.rows, cursor.client_id)
    found = await context.services.cluster.backlog.of_all(after=after, limit=limit)
    following = None
    if found.more:
        rows, client_id = rank(found.items[-1])
        following = seal(ALL_CLIENTS, _Cursor(-rows, client_id))
    view = ClusterBacklogView(
        overdue=overdue_view(found.overdue),
        clients=found.clients,
        drain_seconds=found.drain_seconds,
        items=[backlog_view(one) for one in found.items],
        next_cursor=following,
    )
    return json_response(view)


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/backlog",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_backlog,
        summary="Show what is overdue, by age, and why",
        response=BacklogView,
        cost=20,
        reads_much=True,
    ),
    Route(
        method="GET",
        path="/v1/cluster/backlog",
        access=Access.ADMIN,
        handler=get_cluster_backlog,
        summary="Show what is overdue by client and age, and why; the worst clients first",
        query=BACKLOG_PARAMETERS,
        response=ClusterBacklogView,
        cost=50,
        reads_much=True,
    ),
)
