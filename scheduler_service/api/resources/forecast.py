"""The forecast of a client's minutes, and of all clients'."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.query import instant_parameter
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.forecast import LONGEST_DAYS, Forecast, ForecastRun, MinuteForecast
from scheduler_service.domain.ids import DAY_MS, Minute, minute_of, minute_start
from scheduler_service.domain.instants import LAST_INSTANT, format_instant, window_faults

_FROM: Final = instant_parameter("from", "The first instant whose minute is shown. Left out: now.")
_TO: Final = instant_parameter(
    "to",
    f"The first instant whose minute is not shown, at most {LONGEST_DAYS} days after `from`; cut minutes are counted "
    "whole. Left out: 24 hours after `from`.",
)
FORECAST_PARAMETERS: Final = (_FROM, _TO)

Calls = Annotated[list[int], Meta(min_length=1)]


class ForecastPeakView(msgspec.Struct, frozen=True, kw_only=True):
    """The minute with most calls, the first of several."""

    minute: Instant
    calls: int


class ForecastRunView(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive minutes with calls: `from` is the first, the lists have a number for each."""

    start: Instant = msgspec.field(name="from")
    """The first minute."""
    rows: Calls
    """Schedules that are stored, retries among them."""
    fires: Calls
    """Fires of active crons that are not stored yet."""


class ForecastView(msgspec.Struct, frozen=True, kw_only=True):
    """What the minutes of a window are to call. Minutes without calls are in no run."""

    start: Instant = msgspec.field(name="from")
    """The first minute."""
    end: Instant = msgspec.field(name="to")
    """The first minute that is not shown."""
    guaranteed_per_minute: int
    """Calls a minute that the poller quotas guarantee."""
    capacity_per_minute: int
    """Calls a minute that the live nodes are sized for, for all clients together."""
    calls: int
    """The sum of all rows and fires."""
    minutes_beyond_guarantee: int
    """Minutes with more calls than are guaranteed."""
    minutes_beyond_capacity: int
    """Minutes with more calls than the nodes are sized for."""
    crons_left_out: int
    """Active crons whose fires are missing: there are too many rules to follow in time, or too many fires of one."""
    peak: ForecastPeakView | None
    runs: list[ForecastRunView]


def read_forecast(query: Mapping[str, str], *, now: int) -> tuple[Minute, Minute]:
    """The first and the last minute, both included. Raises Invalid."""
    faults: list[FieldError] = []
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    if faults:
        raise Invalid(faults)
    first = now if start is None else start
    # Minutes after the last year of rules have no rows, and the end of the very last one can't be told.
    last = min(first + DAY_MS if end is None else end, LAST_INSTANT)
    if faults := window_faults(first, last, longest_days=LONGEST_DAYS):
        raise Invalid(faults)
    return minute_of(first), minute_of(last - 1)


def forecast_view(forecast: Forecast, first: Minute, last: Minute) -> ForecastView:
    return ForecastView(
        start=format_instant(minute_start(first)),
        end=format_instant(minute_start(last + 1)),
        guaranteed_per_minute=forecast.guaranteed,
        capacity_per_minute=forecast.capacity,
        calls=forecast.calls,
        minutes_beyond_guarantee=forecast.beyond(forecast.guaranteed),
        minutes_beyond_capacity=forecast.beyond(forecast.capacity),
        crons_left_out=forecast.crons_left_out,
        peak=None if forecast.peak is None else _peak_view(forecast.peak),
        runs=[_run_view(run) for run in forecast.runs()],
    )


def _peak_view(peak: MinuteForecast) -> ForecastPeakView:
    return ForecastPeakView(minute=format_instant(minute_start(peak.minute)), calls=peak.calls)


def _run_view(run: ForecastRun) -> ForecastRunView:
    start = format_instant(minute_start(run.first))
    return ForecastRunView(start=start, rows=list(run.rows), fires=list(run.fires))


async def get_forecast(context: RequestContext) -> web.Response:
    first, last = read_forecast(context.query(), now=context.services.clock.wall_ms())
    forecast = await context.services.forecast.of_client(context.client, first=first, last=last)
    return json_response(forecast_view(forecast, first, last))


async def get_cluster_forecast(context: RequestContext) -> web.Response:
    first, last = read_forecast(context.query(), now=context.services.clock.wall_ms())
    forecast = await context.services.forecast.of_all(first=first, last=last)
    return json_response(forecast_view(forecast, first, last))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/forecast",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_forecast,
        summary="Show how many calls each minute ahead has, against what is guaranteed",
        query=FORECAST_PARAMETERS,
        response=ForecastView,
        cost=50,
        reads_much=True,
    ),
    Route(
        method="GET",
        path="/v1/cluster/forecast",
        access=Access.ADMIN,
        handler=get_cluster_forecast,
        summary="Show how many calls of all clients each minute ahead has, against what the nodes can send",
        query=FORECAST_PARAMETERS,
        response=ForecastView,
        cost=50,
        reads_much=True,
    ),
)
