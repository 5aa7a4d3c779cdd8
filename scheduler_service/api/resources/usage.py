"""A client's usage, by day."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.query import day_parameter
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, UnixMillis
from scheduler_service.domain.instants import format_instant, window_faults
from scheduler_service.domain.usage import DayUsage, Used

MAX_DAYS: Final = 31
DEFAULT_DAYS: Final = 7
_FROM: Final = day_parameter("from", "The first day that is shown, in UTC. Left out: seven days before `to`.")
_TO: Final = day_parameter(
    "to", "The first day that is not shown, at most 31 days after `from`. Left out: tomorrow or, if that is not later, "
    "the day after `from`."
)  # fmt: skip
USAGE_PARAMETERS: Final = (_FROM, _TO)

Day = Annotated[str, Meta(description="A day in UTC", extra_json_schema={"format": "date"})]


class UsedLatenessView(msgspec.Struct, frozen=True, kw_only=True):
    """How much later than due the first attempts began, by percentile."""

    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    max_seconds: float


class UsedView(msgspec.Struct, frozen=True, kw_only=True):
    """accepted = delivered + failed + cancelled + skipped + open. `attempts`: made for these schedules; `bytes`: of
    their bodies. `lateness` null: no attempt was made."""

    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int
    attempts: int
    bytes: int
    lateness: UsedLatenessView | None


class HourUsageView(UsedView, frozen=True, kw_only=True):
    """The schedules due in one hour."""

    hour: Instant


class FailingHostView(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules failed at a receiver's host, or at a destination, which is `destination:NAME` in `host`."""

    host: str
    failed: int


class UsageView(UsedView, frozen=True, kw_only=True):
    """The schedules due on one day in UTC, counted at `counted_at`. `complete`: none of them was open then, so that
    only a redelivery changes the counts. `failing_hosts`: the ten where most failed. Hours without schedules are left
    out."""

    day: Day
    complete: bool
    counted_at: Instant
    failing_hosts: list[FailingHostView]
    hours: list[HourUsageView]


class UsageQuery(NamedTuple):
    """The first and the last day, both included, each as the instant at which it begins."""

    first: UnixMillis
    last: UnixMillis


def read_usage(query: Mapping[str, str], *, now: int) -> UsageQuery:
    """`to` is excluded and defaults to tomorrow or, if that is not later, to the day after `from`; `from` defaults to
    seven days before `to`. Raises Invalid."""
    faults: list[FieldError] = []
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    if faults:
        raise Invalid(faults)
    day = timedelta(days=1)
    if end is None:
        tomorrow = datetime.fromtimestamp(now / 1000, UTC).date() + day
        end = tomorrow if start is None or start < tomorrow else start + day
    if start is None:
        start = end - DEFAULT_DAYS * day
    first, after_last = _beginning(start), _beginning(end)
    if faults := window_faults(first, after_last, longest_days=MAX_DAYS):
        raise Invalid(faults)
    return UsageQuery(first, UnixMillis(after_last - DAY_MS))


def usage_view(usage: DayUsage) -> UsageView:
    return UsageView(
        day=format_instant(usage.day)[:10],
        complete=usage.complete,
        counted_at=format_instant(usage.counted_at),
        failing_hosts=[FailingHostView(host=one.host, failed=one.failed) for one in usage.failing_hosts],
        hours=[HourUsageView(hour=format_instant(usage.day + one.hour * HOUR_MS), **_used(one)) for one in usage.hours],
        **_used(usage),
    )


def _used(used: Used) -> dict[str, Any]:
    shown: dict[str, Any] = {name: getattr(used, name) for name in UsedView.__struct_fields__ if name != "lateness"}
    return {**shown, "lateness": _lateness(used)}


def _lateness(used: Used) -> UsedLatenessView | None:
    p50, p95, p99 = used.lateness_p50_ms, used.lateness_p95_ms, used.lateness_p99_ms
    if p50 is None or p95 is None or p99 is None or used.lateness_max_ms is None:
        return None
    return UsedLatenessView(
        p50_seconds=p50 / 1000, p95_seconds=p95 / 1000, p99_seconds=p99 / 1000, max_seconds=used.lateness_max_ms / 1000
    )


def _beginning(day: date) -> UnixMillis:
    return UnixMillis((day - date(1970, 1, 1)).days * DAY_MS)


async def get_usage(context: RequestContext) -> web.Response:
    asked = read_usage(context.query(), now=context.services.clock.wall_ms())
    days = await context.services.books.usage(context.client.client_id, first=asked.first, last=asked.last)
    return json_response(Items([usage_view(day) for day in days]))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/usage",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_usage,
        summary="Show what was used on each day, as of the latest count, within a window of 31 days",
        query=USAGE_PARAMETERS,
        response=Items[UsageView],
        cost=5,
    ),
)
