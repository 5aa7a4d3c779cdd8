"""What the books say: a day's balance minute by minute, usage by day, audits, and the forecast."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from scheduler_service.console.charts import Bars, svg
from scheduler_service.console.pages import Page

ENDS: Final = ("delivered", "failed", "cancelled", "skipped", "open")
USAGE_DAYS: Final = 14
_WINDOWS: Final = {"hour": 60, "day": 24 * 60}
_MINUTES_A_BAR: Final = {"hour": 1, "day": 10}


async def show_books(page: Page) -> web.Response:
    """The balance of the last hour or day, usage of two weeks, and the last audits."""
    client = page.client()
    window = page.query.get("window") if page.query.get("window") in _WINDOWS else "hour"
    assert window is not None
    now = _now(page)
    balance = await _balance(page, now - timedelta(minutes=_WINDOWS[window]), now)
    usage = await page.get(f"{client}/usage", {"from": f"{now - timedelta(days=USAGE_DAYS):%Y-%m-%d}"})
    audits = await page.get(f"{client}/audits", limit=10)
    bars = balance_bars(balance, now, minutes=_WINDOWS[window], width=_MINUTES_A_BAR[window])
    return page.render(
        "books.html",
        window=window,
        bars=bars,
        picture=svg(bars),
        sums={name: sum(minute[name] for minute in balance) for name in ("accepted", *ENDS)},
        usage=list(reversed(usage["items"])),
        audits=audits["items"],
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


def balance_bars(balance: list[Mapping[str, Any]], now: datetime, *, minutes: int, width: int) -> Bars:
    """Pure. `width`: minutes a bar."""
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    bars = [[0] * len(ENDS) for _ in range(minutes // width + 1)]
    for one in balance:
        at = int((datetime.fromisoformat(one["minute"]) - first).total_seconds() // 60) // width
        if 0 <= at < len(bars):
            for part, name in enumerate(ENDS):
                bars[at][part] += one[name]
    starts = [first + timedelta(minutes=at * width) for at in range(len(bars))]
    return Bars(
        title=f"How the schedules of the last {minutes} minutes ended",
        names=ENDS,
        labels=[f"{start:%H:%M}" for start in starts],
        values=bars,
        marks=_marks(starts),
    )


def forecast_bars(forecast: Mapping[str, Any], *, width: int = 10) -> Bars:
    """Pure. The most calls of one minute in each ten, since a limit is one a minute."""
    start, end = (datetime.fromisoformat(forecast[name]) for name in ("from", "to"))
    count = max(int((end - start).total_seconds() // 60 // width), 1)
    bars = [[0, 0] for _ in range(count)]
    for run in forecast["runs"]:
        began = int((datetime.fromisoformat(run["from"]) - start).total_seconds() // 60)
        for offset, (rows, fires) in enumerate(zip(run["rows"], run["fires"], strict=True)):
            at = (began + offset) // width
            if 0 <= at < count and rows + fires > sum(bars[at]):
                bars[at] = [rows, fires]
    starts = [start + timedelta(minutes=at * width) for at in range(count)]
    return Bars(
        title="Calls foreseen, the most of one minute in each ten",
        names=("stored schedules", "fires of crons"),
        colours=("delivered", "skipped"),
        labels=[f"{one:%d %b %H:%M}" for one in starts],
        values=bars,
        marks=_marks(starts),
        line=(f"guaranteed: {forecast['guaranteed_per_minute']:,} a minute", forecast["guaranteed_per_minute"]),
    )


def _marks(starts: list[datetime]) -> list[tuple[int, str]]:
    """About eight labels below a picture."""
    every = max(len(starts) // 8, 1)
    return [(at, f"{start:%H:%M}") for at, start in enumerate(starts) if at % every == 0]


def _now(page: Page) -> datetime:
    return datetime.fromtimestamp(page.context.services.clock.wall_ms() / 1000, UTC)


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
