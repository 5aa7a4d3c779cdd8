"""The nodes' own port over TLS: who is let in, what callers accept, and nodes of both kinds side by side."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from minutehand.config import ClusterSettings
from poller_cluster.ops.server import OpsServer, OpsSettings, StartingServer, advertised_address, listen
from scheduler_service.domain.errors import NodeUnreachable
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey, UnixMillis, compose_schedule_id
from scheduler_service.hints import HintForwarder, HintSettings
from scheduler_service.node_ports import HttpNodePorts
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.runtime.tls import CERTIFICATE_LOOK_SECONDS, FollowedContext, follow_caller, follow_server
from scheduler_service.usecases.members import HintTargets
from tests.support.api import ManualClock
from tests.support.certificates import Authority
from tests.support.nodes import UnaskedNode

TOKEN = "the-token-of-the-cluster"
HERE = "127.0.0.1"
INCARNATION = NodeIncarnation(NodeId("a"), IncarnationNumber(7))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "authority").mkdir()
    return Authority(tmp_path / "authority")


class Node(UnaskedNode):
    incarnation = INCARNATION

    def __init__(self) -> None:
        self.hints: list[tuple[Partition, RowKey | None]] = []
        self.heard = asyncio.Event()
        self.drains = 0

    def hinted(self, hints: Sequence[tuple[Partition, RowKey | None]]) -> None:
        self.hints += hints
        self.heard.set()

    async def ask(self, *, force: bool) -> None:
        self.drains += 1


def ops_settings(directory: Path) -> OpsSettings:
    """A port with the certificate in a directory."""
    return OpsSettings(tls_cert_file=str(directory / "tls.crt"), tls_key_file=str(directory / "tls.key"))


@asynccontextmanager
async def serving(settings: OpsSettings, node: Node) -> AsyncIterator[tuple[str, FollowedContext | None]]:
    """Its advertised address, and its context."""
    listener, tls = listen(settings), follow_server(settings, table="ops")
    server = OpsServer(
        listener,
        node=node,
        token=TOKEN,
        unhealthy=lambda: (),
        unready=lambda: (),
        metrics=Metrics(program="node", version="1"),
        tls=tls,
    )
    await server.start()
    yield advertised_address(settings, listener), tls
    await server.stop()


def caller(authority: Authority | None = None, **more: str) -> ssl.SSLContext | None:
    ca = {} if authority is None else {"tls_ca_file": str(authority.bundle)}
    return follow_caller(ClusterSettings(**ca, **more), table="cluster")


async def test_a_node_with_a_certificate_says_so_in_its_address_and_is_asked_over_tls(
    tmp_path: Path, authority: Authority
) -> None:
    authority.issue(tmp_path, address=HERE)
    node, ports = Node(), HttpNodePorts(token=TOKEN, tls=caller(authority))
    async with serving(ops_settings(tmp_path), node) as (address, _):
        assert address.startswith(f"https://{HERE}:")
        await ports.drain(INCARNATION, address=address, force=False)
        assert node.drains == 1
        # One with a plain port beside it is asked by the same caller.
        async with serving(OpsSettings(), node) as (plain, _):
            assert plain.startswith(f"{HERE}:")
            await ports.drain(INCARNATION, address=plain, force=False)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(address.replace("https", "http") + "/livez")
    assert node.drains == 2


@pytest.mark.parametrize("other", [None, "tls_server_name"])
async def test_a_node_that_its_caller_can_not_check_gets_no_token(
    tmp_path: Path, authority: Authority, other: str | None
) -> None:
    authority.issue(tmp_path, address=HERE)
    node = Node()
    tls = caller() if other is None else caller(authority, tls_server_name="other.example")
    async with serving(ops_settings(tmp_path), node) as (address, _):
        with pytest.raises(NodeUnreachable):
            await HttpNodePorts(token=TOKEN, tls=tls).drain(INCARNATION, address=address, force=False)
    assert not node.drains


async def test_one_name_may_stand_in_the_certificates_of_all_nodes(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, name="node.minutehand")
    node, tls = Node(), caller(authority, tls_server_name="node.minutehand")
    async with serving(ops_settings(tmp_path), node) as (address, _):
        await HttpNodePorts(token=TOKEN, tls=tls).drain(INCARNATION, address=address, force=False)
    assert node.drains == 1


async def test_a_node_may_require_certificates(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    cert, key = authority.issue(tmp_path / "own", name="an-api")
    node = Node()
    settings = replace(ops_settings(tmp_path), tls_client_ca_file=str(authority.bundle))
    async with serving(settings, node) as (address, _):
        with pytest.raises(NodeUnreachable):
            await HttpNodePorts(token=TOKEN, tls=caller(authority)).drain(INCARNATION, address=address, force=False)
        known = caller(authority, tls_cert_file=str(cert), tls_key_file=str(key))
        await HttpNodePorts(token=TOKEN, tls=known).drain(INCARNATION, address=address, force=False)
    assert node.drains == 1


async def test_hints_go_over_tls_too(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    node, clock = Node(), ManualClock()

    class Members:
        targets = HintTargets()

    async with serving(ops_settings(tmp_path), node) as (address, _):
        Members.targets = HintTargets({NodeId("a"): address}, {NodeId("a"): 1.0})
        hints = HintForwarder(
            members=Members(),
            clock=clock,
            settings=HintSettings(),
            token=TOKEN,
            on_dropped=lambda count: None,
            tls=caller(authority),
        )
        await hints.start()
        key = RowKey(UnixMillis(60_000), compose_schedule_id(due=60_000, poller_id=1, tail=1))
        hints.hint(Partition(ClientId("shop"), PollerId(1), Minute(1)), key)
        clock.advance(1)
        async with asyncio.timeout(10):
            await node.heard.wait()
        await hints.stop()
    assert [one for _, one in node.hints] == [key]


async def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    clock, trusting = ManualClock(), ssl.create_default_context(cafile=authority.bundle)

    async def serial(address: str) -> int:
        port = int(address.rpartition(":")[2])
        _, writer = await asyncio.open_connection(HERE, port, ssl=trusting)
        try:
            return int(writer.get_extra_info("peercert")["serialNumber"], 16)
        finally:
            writer.close()

    async with serving(ops_settings(tmp_path), Node()) as (address, tls):
        assert tls is not None
        first = await serial(address)
        tls.keep_looking(clock)
        authority.issue(tmp_path, address=HERE)
        with capture_logs() as said:
            clock.advance(CERTIFICATE_LOOK_SECONDS)
        assert [(line["event"], line["what"]) for line in said] == [("files-read-again", "certificates of [ops]")]
        assert await serial(address) != first
        tls.stop_looking()


async def test_before_there_is_a_node_its_port_speaks_tls_too(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    settings = ops_settings(tmp_path)
    listener = listen(settings)
    server = StartingServer(listener, unhealthy=tuple, unready=tuple, tls=follow_server(settings, table="ops"))
    await server.start()
    url, tls = advertised_address(settings, listener), caller(authority)
    assert tls is not None
    async with aiohttp.ClientSession() as session, session.get(f"{url}/livez", ssl=tls) as answer:
        assert answer.status == 200
    await server.stop()
    listener.close()


def test_files_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="go together"):
        OpsSettings(tls_cert_file="one")
    with pytest.raises(ValueError, match="needs tls_cert_file"):
        OpsSettings(tls_client_ca_file="one")
    with pytest.raises(ValueError, match="go together"):
        ClusterSettings(tls_key_file="one")
