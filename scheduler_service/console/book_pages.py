"""What the books say: a day's balance minute by minute, usage by day, audits, and the forecast; of all clients audits
and reconciliations."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from scheduler_service.console.charts import MOST_BARS, Bars, svg
from scheduler_service.console.pages import Page

ENDS: Final = ("delivered", "failed", "cancelled", "skipped", "open")
USAGE_DAYS: Final = 14
UNDER_WAY_A_PAGE: Final = 50
AUDITS_A_PAGE: Final = 50
_WINDOWS: Final = {"hour": 60, "day": 24 * 60}


async def show_books(page: Page) -> web.Response:
    """The balance minute by minute of the last hour or day, or of one day; usage of two weeks, and the last audits."""
    client, now = page.client(), page.now
    day = day_of(page.query.get("day", ""))
    window = page.query.get("window", "hour")
    window = window if window in _WINDOWS else "hour"
    end = now if day is None else day + timedelta(days=1)
    start = end - timedelta(minutes=_WINDOWS[window]) if day is None else day
    balance = await _balance(page, start, end)
    usage = await page.get(f"{client}/usage", {"from": f"{now - timedelta(days=USAGE_DAYS):%Y-%m-%d}"})
    audits = await page.get(f"{client}/audits", limit=10)
    bars = balance_bars(balance, start, end)
    return page.render(
        "books.html",
        window=None if day else window,
        day=day,
        when=f"on {day:%-d %B %Y} (UTC)" if day else f"in the last {window}",
        bars=bars,
        picture=svg(bars),
        sums={name: sum(minute[name] for minute in balance) for name in ("accepted", *ENDS)},
        usage=list(reversed(usage["items"])),
        audits=audits["items"],
    )


async def show_cluster_books(page: Page) -> web.Response:
    """Of all clients the reconciliations that run, and the newest audits."""
    under_way = await page.get(
        "/v1/cluster/reconciliations", limit=UNDER_WAY_A_PAGE, cursor=page.query.get("under_way")
    )
    audits = await page.get("/v1/cluster/audits", limit=AUDITS_A_PAGE, cursor=page.query.get("audits"))
    return page.render(
        "cluster_books.html",
        under_way=under_way,
        audits=audits,
    )


async def _balance(page: Page, start: datetime, end: datetime) -> list[Mapping[str, Any]]:
    """All pages of the balance, as many as its bounds allow."""
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for turn in range(10):
        listed = await page.get(
            f"{page.client()}/balance",
            {"cursor": cursor} if cursor else {"from": _text(start), "to": _text(end)},
            shown=not turn,
            limit=1000,
        )
        found += listed["items"]
        cursor = listed["next_cursor"]
        if cursor is None:
            break
    return found


async def show_forecast(page: Page) -> web.Response:
    """The next day of a client, or of all clients for administrators."""
    of_client = "client_id" in page.context.request.match_info
    path = f"{page.client()}/forecast" if of_client else "/v1/cluster/forecast"
    forecast = await page.get(path)
    bars = forecast_bars(forecast)
    return page.render("forecast.html", forecast=forecast, bars=bars, picture=svg(bars))


def balance_bars(balance: list[Mapping[str, Any]], start: datetime, end: datetime) -> Bars:
    """A bar for each minute. Pure."""
    first = start.replace(second=0, microsecond=0)
    starts = [first + timedelta(minutes=at) for at in range(math.ceil((end - first) / timedelta(minutes=1)))]
    bars = [[0] * len(ENDS) for _ in starts]
    for one in balance:
        at = (datetime.fromisoformat(one["minute"]) - first) // timedelta(minutes=1)
        if 0 <= at < len(bars):
            bars[at] = [mine + one[name] for mine, name in zip(bars[at], ENDS, strict=True)]
    return Bars(
        title=f"How the schedules due from {first:%d %b %H:%M} to {end:%d %b %H:%M} ended, minute by minute",
        names=ENDS,
        labels=[f"{one:%H:%M}" for one in starts],
        values=bars,
        marks=_marks(starts),
    )


def day_of(text: str) -> datetime | None:
    """The start of a day in UTC; None: it is none. Pure."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None


def forecast_bars(forecast: Mapping[str, Any]) -> Bars:
    """A bar for each minute. Pure."""
    start, end = (datetime.fromisoformat(forecast[name]) for name in ("from", "to"))
    starts = [start + timedelta(minutes=at) for at in range(max((end - start) // timedelta(minutes=1), 1))]
    bars = [[0, 0] for _ in starts]
    for run in forecast["runs"]:
        began = (datetime.fromisoformat(run["from"]) - start) // timedelta(minutes=1)
        for offset, (rows, fires) in enumerate(zip(run["rows"], run["fires"], strict=True)):
            if 0 <= began + offset < len(bars):
                bars[began + offset] = [rows, fires]
    return Bars(
        title="Calls foreseen, minute by minute",
        names=("stored schedules", "fires of crons"),
        colours=("delivered", "skipped"),
        labels=[f"{one:%d %b %H:%M}" for one in starts],
        values=bars,
        marks=_marks(starts),
        line=(f"guaranteed: {forecast['guaranteed_per_minute']:,} a minute", forecast["guaranteed_per_minute"]),
    )


def _marks(starts: list[datetime]) -> list[tuple[int, str]]:
    """A label each ten minutes below an hour, or two hours below a day."""
    every = 10 if len(starts) <= MOST_BARS else 120
    return [(at, f"{start:%H:%M}") for at, start in enumerate(starts) if (start.hour * 60 + start.minute) % every == 0]


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
