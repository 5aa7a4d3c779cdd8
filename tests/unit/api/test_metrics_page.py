"""Which process renders the page of metrics, how often, and on which port."""

import asyncio
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from minutehand.metrics_port import MetricsPort
from minutehand.processes.several import api_works
from scheduler_service.api.metrics import Exposition
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.listening import CannotListen
from tests.support.api import ADMIN_KEY, ApiHarness, ManualClock


async def test_the_page_is_kept_for_as_long_as_the_operator_says() -> None:
    registry = CollectorRegistry()
    asked = Counter("asked", "So often.", registry=registry)
    async with ApiHarness(registry=registry, metrics_max_age_seconds=1) as api:
        first = (await api.send("GET", "/metrics", key=None)).body
        asked.inc()
        assert (await api.send("GET", "/metrics", key=None)).body == first
        api.clock.advance(1)
        assert b"asked_total 1.0" in (await api.send("GET", "/metrics", key=None)).body


async def test_metrics_with_a_port_of_their_own_are_shown_there_alone() -> None:
    async with ApiHarness(metrics_port=0) as api:
        assert (await api.send("GET", "/metrics", key=None)).status == 404
        port = MetricsPort(api.exposition, host="127.0.0.1", port=0)
        await port.start()
        try:
            url = f"http://127.0.0.1:{port.port}"
            page = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/metrics").read())
            assert b"minutehand_api_requests_total" in page
            with pytest.raises(urllib.error.HTTPError):
                await asyncio.to_thread(urllib.request.urlopen, f"{url}/v1/cluster")
            with pytest.raises(CannotListen, match=r"choose another api\.metrics_port"):
                await MetricsPort(api.exposition, host="127.0.0.1", port=port.port).start()
        finally:
            await port.stop()


def test_each_of_several_processes_shows_its_metrics_on_a_port_of_its_own() -> None:
    def ports(metrics_port: int | None) -> list[str | None]:
        settings = ApiSettings(admin_key=ADMIN_KEY, metrics_port=metrics_port)
        works = api_works(settings, port=8080, processes=2, config=Path("x"), sockets=Path("y"))
        return [work.variables.get("MINUTEHAND_API_METRICS_PORT") for work in works]

    assert ports(9100) == ["9100", "9101"]
    assert ports(None) == [None, None]
    assert ports(0) == [None, None]


@pytest.mark.parametrize("given", [{"metrics_port": -1}, {"metrics_port": 8080}, {"metrics_max_age_seconds": -1}])
def test_settings_that_can_not_work(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="metrics_"):
        ApiSettings(admin_key=ADMIN_KEY, port=8080, **given)


async def test_a_page_of_age_0_is_made_each_time() -> None:
    registry = CollectorRegistry()
    asked = Counter("asked", "So often.", registry=registry)
    exposition = Exposition(registry, clock=ManualClock(), max_age_seconds=0)
    before = await exposition.page()
    asked.inc()
    assert await exposition.page() != before
