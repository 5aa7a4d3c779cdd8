"""One page of metrics for several processes."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_service.runtime.metrics import Distribution, Kind, Metric, Metrics
from scheduler_service.runtime.metrics_pages import SharedPage, merged
from tests.support.api import ManualClock

METRICS = (
    Metric("minutehand_x_total", Kind.COUNTER, "So many.", lambda one: one.counts, labels=("route", "status")),
    Metric("minutehand_x_seconds", Kind.HISTOGRAM, "So long.", lambda one: one.seconds),
    Metric("minutehand_x", Kind.GAUGE, "So much.", lambda one: one.much),
)


class Counted:
    """The metrics of one process. A `PageMaker`."""

    def __init__(self, calls: int) -> None:
        self.counts = {('/a{b}" c', "200"): calls}
        self.seconds = Distribution((0.1, 1.0))
        for _ in range(calls):
            self.seconds.observe(0.5)
        self.much = float(calls)
        self.asked = 0
        self._metrics = Metrics(program="api", version="1")
        self._metrics.show(METRICS, of=self)

    async def page(self) -> bytes:
        self.asked += 1
        return self._metrics.exposition()


def samples(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = [
        ((one.name, frozenset(one.labels.items())), one.value)
        for family in text_string_to_metric_families(page.decode())
        for one in family.samples
    ]
    assert len(dict(found)) == len(found), "no series twice"
    return dict(found)


async def test_every_series_of_every_process_is_there_once_and_sums_are_whole() -> None:
    first, second = Counted(3), Counted(4)
    page = merged({"api-0": await first.page(), "api-1": await second.page()})
    of_all = samples(page)
    for process, counted in (("api-0", first), ("api-1", second)):
        its_own = samples(await counted.page())
        for (name, labels), value in its_own.items():
            if name.startswith("minutehand_"):
                assert of_all[name, labels | {("process", process)}] == value
    assert page.count(b"# TYPE minutehand_x_seconds histogram") == 1

    def sum_of(name: str, **labels: str) -> float:
        return sum(value for (one, has), value in of_all.items() if one == name and labels.items() <= set(has))

    assert sum_of("minutehand_x_total") == 7
    assert sum_of("minutehand_x_seconds_bucket", le="1.0") == 7
    assert sum_of("minutehand_x_seconds_bucket", le="0.1") == 0
    assert sum_of("minutehand_x_seconds_sum") == 3.5


async def test_whichever_process_is_asked_shows_all_that_run(tmp_path: Path) -> None:
    clock, counted = ManualClock(), {name: Counted(number) for number, name in enumerate(("a-0", "a-1", "a-2"))}
    pages = [
        SharedPage(str(tmp_path / f"{name}.sock"), one, clock=clock, max_age_seconds=1) for name, one in counted.items()
    ]
    for page in pages:
        await page.start()
    first, second, third = pages
    assert samples(await first.page()).keys() == samples(await third.page()).keys()
    whole = await second.page()
    assert all(f'process="{name}"'.encode() in whole for name in counted)

    asked = counted["a-1"].asked
    await asyncio.gather(*(first.page() for _ in range(5)))
    assert counted["a-1"].asked == asked, "the page is kept for a second"
    clock.advance(1)
    await asyncio.gather(*(first.page() for _ in range(5)))
    assert counted["a-1"].asked == asked + 1, "and then made once"

    await third.stop()
    clock.advance(1)
    assert b'process="a-2"' not in await first.page()
    (tmp_path / "a-3.sock").touch()
    clock.advance(1)
    assert b'process="a-1"' in await first.page()
    for page in pages:
        await page.stop()
        await page.stop()


async def test_a_process_that_does_not_answer_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.runtime.metrics_pages.PAGE_SECONDS", 0.02)
    over = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_unix_server(silent, tmp_path / "a-1.sock")
    own = SharedPage(str(tmp_path / "a-0.sock"), Counted(1), clock=ManualClock(), max_age_seconds=0)
    await own.start()
    assert b'minutehand_x{process="a-0"} 1.0' in await own.page()
    await own.stop()
    over.set()
    server.close()
    await server.wait_closed()
