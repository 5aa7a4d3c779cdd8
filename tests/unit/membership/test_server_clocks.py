"""What a process knows of the servers' clocks: when it asked, and how long that took."""

import asyncio

import pytest

from membership.server_clocks import ServerClocks
from membership.settings import MembershipSettings
from tests.support.membership_store import Fault, MembershipStore, StorePort
from tests.support.virtual_clock import VirtualClock
from tests.support.virtual_loop import run_virtual, virtual_loop


class Asking:
    """Asks servers with these clock errors, from a process whose clock is right."""

    def __init__(self, *skews_ms: int) -> None:
        self.store = MembershipStore()
        self.store.server_skews_ms = list(skews_ms)
        self.clock = VirtualClock()
        self.port = StorePort(self.store, self.clock)
        self.servers = ServerClocks(store=self.port, clock=self.clock, settings=MembershipSettings())
        self.task = asyncio.get_running_loop().create_task(self.servers.run())
        self.known = asyncio.get_running_loop().create_task(self.servers.known())

    async def advance(self, seconds: float) -> None:
        await virtual_loop().advance(seconds)

    def ahead(self) -> list[int]:
        """The servers' errors, rounded to whole seconds."""
        return sorted(round(ahead, -3) for ahead in self.servers.ahead_ms())

    async def ends(self) -> None:
        self.task.cancel()
        self.known.cancel()
        await asyncio.wait([self.task, self.known])


def test_all_servers_are_known_at_once_and_asked_every_other_second_from_then_on() -> None:
    async def scenario() -> None:
        asking = Asking(0, 600_000, 0)
        assert asking.servers.ahead_ms() == []
        assert asking.servers.ahead_of_most_ms() == 0
        await asking.advance(0.05)
        assert not asking.known.done(), "one answer is few"
        await asking.advance(0.45)
        assert asking.known.done()
        assert asking.ahead() == [-600_000, 0, 0]
        assert asking.servers.ahead_of_most_ms() == 0
        asking.store.requests.clear()
        await asking.advance(60.0)
        assert 29 <= asking.store.requests["read_server_clock"] <= 31
        await asking.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("number", [1, 5, 12])
def test_servers_are_known_once_all_have_answered(number: int) -> None:
    async def scenario() -> None:
        asking = Asking(*[0] * number)
        while not asking.known.done():
            await asking.advance(0.05)
        assert len(asking.ahead()) == number
        assert asking.store.requests["read_server_clock"] <= number + 2
        await asking.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("step_ms", [600_000, -600_000])
def test_a_server_that_is_set_is_seen_by_its_next_answer(step_ms: int) -> None:
    async def scenario() -> None:
        asking = Asking(0)
        await asking.advance(10.0)
        asking.store.server_skews_ms = [step_ms]
        stepped = asking.clock.monotonic()
        assert asking.servers.ahead_ms(stepped) == [], "what was asked before says nothing"
        await asking.advance(2.1)
        assert asking.ahead() == [-step_ms]
        assert len(asking.servers.ahead_ms(stepped)) == 1
        await asking.ends()

    run_virtual(scenario)


def test_a_step_of_the_own_clock_shifts_the_servers_offsets() -> None:
    async def scenario() -> None:
        asking = Asking(0)
        await asking.advance(10.0)
        asking.clock.skew_ms = 600_000
        assert asking.ahead() == [600_000]
        await asking.ends()

    run_virtual(scenario)


def test_a_slow_store_makes_no_clock_look_wrong() -> None:
    async def scenario() -> None:
        asking = Asking(0)
        asking.port.travel_seconds = 1.9
        await asking.advance(30.0)
        assert asking.known.done()
        assert abs(asking.servers.ahead_of_most_ms()) < 2_000
        await asking.ends()

    run_virtual(scenario)


def test_nothing_is_learnt_over_a_pause_of_this_process() -> None:
    async def scenario() -> None:
        asking = Asking(0)
        await asking.advance(10.0)
        asking.port.travel_seconds = 0.5
        asking.store.requests.clear()
        while not asking.store.requests:
            await asking.advance(0.1)
        await asking.advance(0.6)
        asking.clock.pause()
        await asking.advance(50.0)
        asking.clock.resume()
        await asking.advance(1.0)
        assert asking.ahead() == [0]
        await asking.ends()

    run_virtual(scenario)


def test_a_server_that_tells_nothing_is_forgotten_and_known_again_when_it_does() -> None:
    async def scenario() -> None:
        asking = Asking(0)
        await asking.advance(10.0)
        asking.port.fault = lambda name, subject: Fault.REFUSED
        await asking.advance(50.0)
        assert asking.ahead() == [0]
        await asking.advance(20.0)
        assert asking.ahead() == []
        asking.port.fault = lambda name, subject: None
        await asking.advance(5.0)
        assert asking.ahead() == [0]
        await asking.ends()

    run_virtual(scenario)
