"""Fixtures of the delivery engine's suites: a receiver, and engines that are stopped at the end."""

from collections.abc import AsyncIterator

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from tests.support.delivery import EngineMaker, engines
from tests.support.raw_receiver import RawReceiver


@pytest.fixture
async def receiver() -> AsyncIterator[RawReceiver]:
    async with RawReceiver() as made:
        yield made


@pytest.fixture
async def make_engine() -> AsyncIterator[EngineMaker]:
    async with engines() as make:
        yield make


@pytest.fixture
async def engine(make_engine: EngineMaker) -> DeliveryEngine:
    return await make_engine()
