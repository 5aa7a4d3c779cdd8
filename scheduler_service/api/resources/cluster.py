"""The operator's view: show the cluster and a client's pollers, drain and undrain nodes."""

from typing import Final

from aiohttp import web

from membership.identity import NodeId
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.query import flag_parameter
from scheduler_service.api.http.route import Items, NoRequest, RequestContext, Route, json_response
from scheduler_service.api.schemas import (
    CallingClientView,
    ClusterView,
    DrainingView,
    LateCallsView,
    NodeView,
    PollerOwner,
    PollersView,
    PollerView,
    RecentCallsView,
)
from scheduler_service.domain.call_figures import busiest, late_at_most
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.cluster import NodeShown, PollerShown

FORCE: Final = flag_parameter("force", "Drain even if no other node takes pollers, so that no calls are made.")

LATE_PARTS: Final = (0.5, 0.9, 0.99, 1.0)
BUSIEST_SHOWN: Final = 20


async def get_cluster(context: RequestContext) -> web.Response:
    cluster = await context.services.cluster.show()
    view = ClusterView(
        nodes=[_node_view(node) for node in cluster.nodes],
        pollers=PollersView(total=cluster.pollers, owned=cluster.owned),
        guaranteed_calls_per_minute=cluster.guaranteed_calls_per_minute,
        capacity_per_minute=cluster.capacity_per_minute,
        not_calling=cluster.not_calling,
    )
    return json_response(view)


async def get_cluster_calls(context: RequestContext) -> web.Response:
    figures, silent = await context.services.cluster.recent_calls()
    view = RecentCallsView(
        per_second=round(figures.per_second, 1),
        late=[LateCallsView(part=part, seconds=late_at_most(figures.lateness, part)) for part in LATE_PARTS],
        delivered=figures.ends.get(State.DELIVERED, 0),
        failed=figures.ends.get(State.FAILED, 0),
        clients=[
            CallingClientView(
                client_id=name,
                calls=one.calls,
                mean_late_seconds=round(one.mean_late_seconds, 4),
                failed_attempts=one.failed_attempts,
            )
            for name, one in busiest(figures.clients, most=BUSIEST_SHOWN)
        ],
        nodes_not_answering=list(silent),
    )
    return json_response(view)


async def drain_node(context: RequestContext) -> web.Response:
    await context.no_body()
    faults: list[FieldError] = []
    force = FORCE.of(context.query(), faults) or False
    if faults:
        raise Invalid(faults)
    member = await context.services.cluster.drain(NodeId(context.path("node_id")), force=force)
    node_id, incarnation = member.incarnation
    context.log("node-drain-asked", node_id=node_id, incarnation=incarnation, forced=str(force).lower())
    return json_response(DrainingView(node_id=node_id, incarnation=incarnation, state=member.state), status=202)


async def undrain_node(context: RequestContext) -> web.Response:
    await context.no_body()
    member = await context.services.cluster.undrain(NodeId(context.path("node_id")))
    node_id, incarnation = member.incarnation
    context.log("node-undrain-asked", node_id=node_id, incarnation=incarnation)
    return json_response(DrainingView(node_id=node_id, incarnation=incarnation, state=member.state), status=202)


async def list_pollers(context: RequestContext) -> web.Response:
    return json_response(
        Items([_poller_view(poller) for poller in await context.services.cluster.pollers(context.client)])
    )


def _node_view(node: NodeShown) -> NodeView:
    member, heartbeat = node.member, node.member.heartbeat
    age = member.beat_age_seconds
    return NodeView(
        node_id=member.incarnation.node_id,
        incarnation=member.incarnation.number,
        state=member.state,
        beat_age_seconds=None if age is None else round(age, 3),
        pollers=node.pollers,
        clock_offset_ms=member.offset_ms,
        capacity_per_minute=heartbeat.capacity_per_minute,
        weight=heartbeat.weight,
        version=heartbeat.version,
        address=heartbeat.address,
    )


def _poller_view(poller: PollerShown) -> PollerView:
    return PollerView(
        poller_id=poller.poller_id,
        owner=None if poller.owner is None else PollerOwner(*poller.owner),
        epoch=poller.epoch,
        watermark=format_instant(minute_start(poller.watermark)),
        lagging=poller.lagging,
        open_minutes=poller.open_minutes,
        backlog=poller.backlog,
        cut=poller.cut,
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/cluster",
        access=Access.ADMIN,
        handler=get_cluster,
        summary="Show the nodes, how many pollers have an owner, and guarantees against capacity",
        response=ClusterView,
        cost=2,
    ),
    Route(
        method="GET",
        path="/v1/cluster/calls",
        access=Access.ADMIN,
        handler=get_cluster_calls,
        summary="Show what nodes called within the last minute: how many a second, how late, for whom",
        response=RecentCallsView,
        cost=2,
    ),
    Route(
        method="POST",
        path="/v1/cluster/nodes/{node_id}:drain",
        access=Access.ADMIN,
        handler=drain_node,
        summary="Drain a node; it stays, draining, until its process is stopped",
        query=(FORCE,),
        request=NoRequest,
        response=DrainingView,
        status=202,
        problems=("node-unreachable", "last-node"),
    ),
    Route(
        method="POST",
        path="/v1/cluster/nodes/{node_id}:undrain",
        access=Access.ADMIN,
        handler=undrain_node,
        summary="Undrain a node: it takes its share of pollers again",
        request=NoRequest,
        response=DrainingView,
        status=202,
        problems=("node-unreachable", "node-stopping"),
    ),
    Route(
        method="GET",
        path="/v1/clients/{client_id}/pollers",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_pollers,
        summary="Show a client's pollers: owner, epoch, watermark, backlog",
        response=Items[PollerView],
        cost=10,
    ),
)
