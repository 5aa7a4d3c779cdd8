"""Wake-ups are expanded in groups of one client while their node may act, and each of them ends once."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from membership.errors import StoreUnavailable
from poller_cluster.crons.expander import CronEngine, Expander
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from scheduler_service.domain.crons.expansion import WAKE_UP_SCHEME, WakeUp
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.usecases.expand_crons import EXPANDED_AT_ONCE
from tests.support.api import ManualClock
from tests.support.node_parts import node_runtime

SHOP, BANK = ClientId("shop"), ClientId("bank")


@dataclass
class Bench:
    """An expander whose expansions end when the test says so. `errors`: what the next ones raise."""

    clock: ManualClock = field(default_factory=ManualClock)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    errors: list[Exception | None] = field(default_factory=list)
    results: dict[str, list[AttemptResult]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    trusted: bool = True
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.expander = Expander(
            expand=self.expand,
            runtime=node_runtime(self.clock, spawn=self.spawn, on_fault=lambda what, error: self.faults.append(what)),
        )

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))
        return self.tasks[-1]

    async def expand(self, client_id: ClientId, cron_ids: Sequence[CronId]) -> None:
        self.asked.append((client_id, list(cron_ids)))
        await self.may_end.wait()
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def wake(self, cron_id: str, *, client_id: ClientId = SHOP, body: bytes | None = None) -> None:
        wake_up = msgspec.json.encode(WakeUp(client_id, CronId(cron_id))) if body is None else body
        done = self.results.setdefault(cron_id, [])
        self.expander.start_attempt(
            request(WAKE_UP_SCHEME + SHOP, wake_up), done.append, may_start=lambda: self.trusted
        )

    async def settle(self) -> None:
        self.may_end.set()
        await asyncio.gather(*self.tasks)

    def ended(self) -> dict[str, list[tuple[int | None, str | None]]]:
        return {name: [(one.status, one.error) for one in results] for name, results in self.results.items()}


def request(url: str, body: bytes = b"") -> CallbackRequest:
    return CallbackRequest(method="POST", url=url, headers=(), body=body, timeout_seconds=10.0, at_most_once=False)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def begun(bench: Bench, *names: str) -> None:
    """Wait until the first is being expanded, alone; the others wait."""
    for name in names:
        bench.wake(name)
    await asyncio.sleep(0)


async def test_wake_ups_arriving_during_an_expansion_share_the_next_one(bench: Bench) -> None:
    await begun(bench, "first")
    bench.wake("other", client_id=BANK)
    await begun(bench, *(f"c{number}" for number in range(EXPANDED_AT_ONCE + 20)))
    assert bench.expander.in_flight == EXPANDED_AT_ONCE + 22
    await bench.settle()
    assert [(client, len(names)) for client, names in bench.asked] == [
        (SHOP, 1),
        (BANK, 1),
        (SHOP, EXPANDED_AT_ONCE),
        (SHOP, 20),
    ]
    assert bench.ended() == {name: [(200, None)] for name in bench.results}
    assert bench.expander.in_flight == 0
    bench.wake("later")
    await bench.settle()
    assert bench.ended()["later"] == [(200, None)]


async def test_while_the_store_is_away_it_is_begun_again(bench: Bench) -> None:
    await begun(bench, "first")
    bench.errors = [StoreUnavailable("away")] * 20
    await bench.settle()
    assert bench.ended() == {"first": [(200, None)]}
    assert len(bench.asked) == 21
    (result,) = bench.results["first"]
    assert 15 < result.duration_seconds < 60, "pauses grow to two seconds"
    assert bench.faults == []


async def test_a_wake_up_without_trust_does_not_stop_the_others(bench: Bench) -> None:
    await begun(bench, "first")
    bench.wake("second")

    bench.errors = [None, StoreUnavailable("away")]
    bench.expander.start_attempt(
        request(WAKE_UP_SCHEME + SHOP, msgspec.json.encode(WakeUp(SHOP, CronId("lost")))),
        bench.results.setdefault("lost", []).append,
        may_start=lambda: False,
    )
    await bench.settle()
    assert bench.ended() == {"first": [(200, None)], "second": [(200, None)], "lost": [(None, "not-trusted")]}
    assert [names for _, names in bench.asked] == [["first"], ["second"], ["second"]]
    (result,) = bench.results["lost"]
    assert result.nothing_sent


async def test_when_trust_is_lost_nothing_more_is_expanded(bench: Bench) -> None:
    await begun(bench, "first")
    bench.errors = [StoreUnavailable("away")]
    bench.trusted = False
    await bench.settle()
    assert bench.ended() == {"first": [(None, "not-trusted")]}
    assert len(bench.asked) == 1


async def test_an_unhandled_error_ends_its_group_and_no_other(bench: Bench) -> None:
    await begun(bench, "first")
    bench.wake("second")
    bench.wake("third")
    bench.errors = [RuntimeError("a bug"), None]
    await bench.settle()
    assert bench.ended() == {"first": [(None, "internal")], "second": [(200, None)], "third": [(200, None)]}
    assert bench.faults == ["expansion for shop"]
    assert not bench.results["first"][0].final, "it is retried as any call"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"client_id": "shop"}', b"\xff"])
async def test_a_wake_up_that_names_nothing_ends_for_good(bench: Bench, body: bytes) -> None:
    bench.wake("nothing", body=body)
    assert bench.ended() == {"nothing": []}, "never before the call has returned"
    bench.clock.advance(0)
    assert bench.ended() == {"nothing": [(None, "internal")]}
    assert bench.results["nothing"][0].final
    assert (bench.expander.in_flight, bench.tasks, len(bench.faults)) == (0, [], 1)


async def test_the_engine_tells_wake_ups_from_calls(bench: Bench) -> None:
    @dataclass
    class Calls:
        capacity: int = 7
        in_flight: int = 3
        urls: list[str] = field(default_factory=list)

        def start_attempt(self, request: CallbackRequest, on_done: object, *, may_start: object) -> None:
            self.urls.append(request.url)

    calls = Calls()
    engine = CronEngine(calls=calls, expander=bench.expander)
    wake_up = request(WAKE_UP_SCHEME + SHOP, msgspec.json.encode(WakeUp(SHOP, CronId("tick"))))
    for one in (request("https://receiver.example/"), wake_up):
        engine.start_attempt(one, lambda result: None, may_start=lambda: True)
    assert calls.urls == ["https://receiver.example/"]
    assert (engine.capacity, engine.in_flight) == (7, 3), "a wake-up takes no room from calls"
    await bench.settle()
    assert bench.asked == [(SHOP, ["tick"])]
