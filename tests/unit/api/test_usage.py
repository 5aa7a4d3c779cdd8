"""GET .../usage: the counts, and the valid days."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.usage import DayUsage, FailingHost, HourUsage
from tests.support.api import NOW, ApiHarness
from tests.support.usage import put_usage

USAGE = "/v1/clients/shop/usage"
TODAY = NOW - NOW % DAY_MS
"""2026-11-21."""
LATE = {"lateness_p50_ms": 4, "lateness_p95_ms": 21, "lateness_p99_ms": 70, "lateness_max_ms": 7_200_000}


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


async def put(api: ApiHarness, days: int, **other: Any) -> None:
    given: dict[str, Any] = {"complete": True, "counted_at": UnixMillis(NOW), **other}
    client = ClientId(given.pop("client_id", "shop"))
    await put_usage(api.connection, DayUsage(client_id=client, day=UnixMillis(TODAY + days * DAY_MS), **given))


async def days(api: ApiHarness, key: str, **query: str) -> list[str]:
    reply = await api.send("GET", USAGE, key=key, params={name.rstrip("_"): text for name, text in query.items()})
    assert reply.status == 200, reply.body
    assert reply.json["next_cursor"] is None
    return [item["day"] for item in reply.json["items"]]


async def test_a_day_with_its_hours_and_hosts(api: ApiHarness) -> None:
    key = await api.register()
    counts = {"accepted": 6, "delivered": 2, "failed": 1, "cancelled": 1, "skipped": 1, "open": 1}
    await put(
        api,
        0,
        **counts,
        **LATE,
        attempts=9,
        bytes=40,
        complete=False,
        failing_hosts=(FailingHost(host="a.example", failed=1),),
        hours=(HourUsage(hour=0, accepted=1, open=1), HourUsage(hour=23, accepted=5, **LATE)),
    )
    await put(api, 0, client_id="other", accepted=99)
    (item,) = (await api.send("GET", USAGE, key=key)).json["items"]
    hours = item.pop("hours")
    assert item == {
        **counts,
        "attempts": 9,
        "bytes": 40,
        "lateness": {"p50_seconds": 0.004, "p95_seconds": 0.021, "p99_seconds": 0.07, "max_seconds": 7200.0},
        "day": "2026-11-21",
        "complete": False,
        "counted_at": "2026-11-21T09:30:00.000Z",
        "failing_hosts": [{"host": "a.example", "failed": 1}],
    }
    assert [(hour["hour"], hour["accepted"], hour["lateness"] is None) for hour in hours] == [
        ("2026-11-21T00:00:00.000Z", 1, True),
        ("2026-11-21T23:00:00.000Z", 5, False),
    ]


async def test_which_days_are_shown(api: ApiHarness) -> None:
    key = await api.register()
    for offset in (-31, -7, -6, -1, 0, 1, 5, 6):
        await put(api, offset)
    assert await days(api, key) == ["2026-11-15", "2026-11-20", "2026-11-21"]
    assert await days(api, key, from_="2026-11-20") == ["2026-11-20", "2026-11-21"]
    assert await days(api, key, from_="2026-11-22") == ["2026-11-22"]
    assert await days(api, key, to="2026-11-28") == ["2026-11-21", "2026-11-22", "2026-11-26", "2026-11-27"]
    assert (await days(api, key, from_="2026-10-21", to="2026-11-21"))[::3] == ["2026-10-21", "2026-11-20"]
    assert await days(api, key, to="1970-01-01") == []
    assert await days(api, key, from_="9998-12-31") == []


@pytest.mark.parametrize(
    ("query", "pointer", "sentence"),
    [
        ({"from": "2026-11-21T00:00:00Z"}, "/from", "must be a day, such as 2026-11-21"),
        ({"from": "2026-02-30"}, "/from", "'2026-02-30' is no day of the calendar"),
        ({"to": "9999-01-01"}, "/to", "must be in the years from 1970 to 9998"),
        ({"from": "2026-11-21", "to": "2026-11-21"}, "/to", "must be after from"),
        ({"from": "2026-10-01", "to": "2026-11-02"}, "/to", "is more than 31 days after from"),
        ({"limit": "5"}, "/limit", "is not a known parameter"),
    ],
)
async def test_invalid_windows_of_usage_are_refused(
    api: ApiHarness, query: dict[str, str], pointer: str, sentence: str
) -> None:
    key = await api.register()
    reply = await api.send("GET", USAGE, key=key, params=query)
    assert reply.status == 422
    assert reply.faults[pointer].startswith(sentence)
