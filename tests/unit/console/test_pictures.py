"""Pictures of numbers, and the pages that show them with the same numbers as a table."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler_service.console.book_pages import balance_bars, day_of, forecast_bars
from scheduler_service.console.charts import CHART_WIDTH, HEIGHT, MOST_BARS, Bars, svg
from scheduler_service.domain.schedules import State
from tests.support.api import ApiHarness
from tests.support.browser import Browser
from tests.support.outcomes import attempted, created, ended

START = datetime(2026, 11, 20, tzinfo=UTC)
ENDED = {"delivered": 0, "failed": 0, "cancelled": 0, "skipped": 0, "open": 0}


def minute(at: int, **ends: int) -> dict[str, Any]:
    return {"minute": (START + timedelta(minutes=at)).isoformat(), "accepted": sum(ends.values()), **ENDED, **ends}


def test_a_day_has_a_bar_for_each_minute() -> None:
    balance = [minute(0, delivered=5), minute(61, delivered=2, failed=1), minute(1439, open=4), minute(1440, open=9)]
    bars = balance_bars(balance, START, START + timedelta(days=1))
    assert len(bars.values) == 1440
    assert bars.rows == [("00:00", [5, 0, 0, 0, 0]), ("01:01", [2, 1, 0, 0, 0]), ("23:59", [0, 0, 0, 0, 4])]
    assert [text for _, text in bars.marks] == [f"{hour:02d}:00" for hour in range(0, 24, 2)]


@pytest.mark.parametrize("count", [MOST_BARS, 1440])
def test_a_picture_looks_at_all_bars_a_few_times(count: int) -> None:
    looks = 0

    class Counted(list[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    svg(Bars(title="", names=("delivered",), labels=[""] * count, values=[Counted([1]) for _ in range(count)]))
    assert looks <= 6 * count


def test_a_window_begins_with_its_minute() -> None:
    bars = balance_bars([minute(0, failed=1)], START + timedelta(seconds=30), START + timedelta(minutes=60, seconds=30))
    assert (len(bars.values), bars.rows) == (61, [("00:00", [0, 1, 0, 0, 0])])


def test_a_forecast_has_a_bar_for_each_minute() -> None:
    end = START + timedelta(days=1)
    run = {"from": (START + timedelta(minutes=3)).isoformat(), "rows": [7, 0, 9], "fires": [1, 0, 0]}
    forecast = {"from": START.isoformat(), "to": end.isoformat(), "runs": [run], "guaranteed_per_minute": 1000}
    bars = forecast_bars(forecast)
    assert len(bars.values) == 1440
    assert bars.rows == [("20 Nov 00:03", [7, 1]), ("20 Nov 00:05", [9, 0])]


@pytest.mark.parametrize(("text", "day"), [("2026-11-20", START), ("2026-13-01", None), ("today", None), ("", None)])
def test_a_day_is_read(text: str, day: datetime | None) -> None:
    assert day_of(text) == day


def bars_of(count: int, values: dict[int, tuple[int, int]]) -> Bars:
    filled = [list(values.get(at, (0, 0))) for at in range(count)]
    return Bars(title="<t>", names=("a", "b"), labels=[str(at) for at in range(count)], values=filled)


def test_many_bars_are_areas_of_the_same_heights() -> None:
    drawn = str(svg(bars_of(1440, {0: (10, 0), 1: (10, 0), 700: (4, 6)})))
    assert f'viewBox="0 0 1440 {HEIGHT}"' in drawn
    assert 'class="chart long"' in drawn
    assert "&lt;t&gt;" in drawn
    paths = dict(re.findall(r'<path class="of-(\w+)" d="([^"]+)"', drawn))
    pieces = {name: re.findall(r"M(\S+) (\S+)V(\S+)h(\S+)V(\S+)z", path) for name, path in paths.items()}
    ground, top = str(HEIGHT - 18), "6"
    assert pieces["delivered"][0] == ("0", ground, top, "2", ground), "neighbours of one height are one piece"
    (x, low, middle, width, _) = pieces["delivered"][1]
    assert (x, low, width) == ("700", ground, "1")
    assert pieces["failed"] == [("700", middle, top, "1", middle)], "it stands on the other part"


def test_few_bars_have_titles_of_their_own_and_little_is_seen() -> None:
    drawn = str(svg(bars_of(60, {3: (1, 100_000)})))
    assert f'viewBox="0 0 {CHART_WIDTH} {HEIGHT}"' in drawn
    assert "<title>3: a 1, b 100,000</title>" in drawn
    assert min(float(high) for high in re.findall(r'height="([\d.]+)"', drawn)) >= 0.75
    assert "<path" not in drawn
    assert "<path" in str(svg(bars_of(MOST_BARS + 1, {3: (1, 1)})))


@pytest.mark.parametrize("query", ["?day=2026-11-21", "?day=nonsense&window=nonsense"])
async def test_books_are_shown_as_a_picture_and_a_table(
    api: ApiHarness, key: str, manager: Browser, query: str
) -> None:
    one = await created(api, key, delay_seconds=60)
    api.clock.advance(120)
    await attempted(api, one, 1)
    await ended(api, one, State.FAILED)
    shown = await manager.open(f"/console/clients/shop/books{query}")
    assert shown.status == 200, shown.text
    assert "<svg" in shown.source
    assert "09:31 0 1 0 0 0" in shown.text


async def test_another_day_has_its_own(api: ApiHarness, key: str, manager: Browser) -> None:
    await created(api, key, delay_seconds=60)
    shown = await manager.open("/console/clients/shop/books?day=2026-11-20")
    assert "Of 0 schedules due on 20 November 2026 (UTC)" in shown.text


def test_a_full_day_is_a_picture_of_bounded_size() -> None:
    values = {at: (at % 97 + 1, at % 13) for at in range(1440)}
    assert len(str(svg(bars_of(1440, values)))) < 130_000
