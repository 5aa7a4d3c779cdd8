"""An engine, and a receiver over HTTP/2 that it trusts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from tests.support.certificates import Authority
from tests.support.delivery import engines
from tests.support.http2_receiver import Http2Receiver, held


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def receiver(authority: Authority) -> AsyncIterator[Http2Receiver]:
    """A receiver that answers `/held` only when the test does."""
    async with Http2Receiver(tls=authority.server_context("127.0.0.1")) as made:
        made.script["/held"] = held
        yield made


@pytest.fixture
async def engine(authority: Authority) -> AsyncIterator[DeliveryEngine]:
    async with engines() as make:
        yield await make(ca_file=str(authority.bundle))
