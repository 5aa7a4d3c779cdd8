"""The limit of file descriptors, and the engine's size by it."""

import resource

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.settings import DeliverySettings
from scheduler_service.runtime.descriptors import DESCRIPTORS_RESERVED, FEWEST, affordable_sockets
from tests.support.delivery import CLOCK, LOOPBACK


class Limit:
    """A fake of the process's limit; `stubborn` systems refuse to change it."""

    def __init__(self, soft: int, hard: int, *, stubborn: bool = False) -> None:
        self.soft, self.hard, self.stubborn = soft, hard, stubborn

    def get(self, which: int) -> tuple[int, int]:
        assert which == resource.RLIMIT_NOFILE
        return self.soft, self.hard

    def set(self, which: int, limits: tuple[int, int]) -> None:
        if self.stubborn:
            raise OSError("not permitted")
        assert limits[0] <= self.hard or self.hard == resource.RLIM_INFINITY
        assert limits[1] == self.hard
        self.soft = limits[0]


@pytest.mark.parametrize(
    ("limit", "affordable"),
    [
        (Limit(4000, 4000), 3000),
        (Limit(1024, 4000), 3000),
        (Limit(1024, resource.RLIM_INFINITY), 3000),
        (Limit(resource.RLIM_INFINITY, resource.RLIM_INFINITY), 3000),
        (Limit(1024, 2000), 2000 - DESCRIPTORS_RESERVED),
        (Limit(1024, 4000, stubborn=True), 1024 - DESCRIPTORS_RESERVED),
        (Limit(100, 100), FEWEST),
    ],
)
async def test_the_engines_size_fits_the_descriptor_limit(
    limit: Limit, affordable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    assert affordable_sockets(3000) == affordable

    engine = DeliveryEngine(clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings())
    await engine.start()
    assert engine.capacity == min(2000, affordable * 2 // 3)
    await engine.stop()


def test_the_limit_is_not_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit(100_000, 100_000)
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    assert affordable_sockets(3000) == 3000
    assert limit.soft == 100_000
