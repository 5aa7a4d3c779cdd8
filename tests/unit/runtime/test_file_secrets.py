"""Secrets that follow their files: what is used, what is refused, and how one is replaced without a gap."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from minutehand.config import load_settings
from poller_cluster.ops.server import OpsServer, OpsSettings, advertised_address, listen
from scheduler_service.domain.errors import NodeUnreachable
from scheduler_service.node_ports import HttpNodePorts
from scheduler_service.runtime.file_secrets import FileSecret, accepts, keep_looking, now, sent
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.usecases.authenticate import Authenticate, Unauthenticated
from tests.support.api import ManualClock
from tests.support.nodes import UnaskedNode

OLD, NEW = "the-old-token-of-it", "the-new-token-of-it"
INCARNATION = NodeIncarnation(NodeId("a"), IncarnationNumber(1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(f"{OLD}\n")
    return tmp_path / "token"


def write(file: Path, text: str) -> None:
    file.write_text(text)


def token_of(file: Path) -> str:
    token = load_settings(environment={"MINUTEHAND_CLUSTER_TOKEN_FILE": str(file)}).cluster.token
    assert token is not None
    return token


def test_a_secret_is_as_its_file_is(file: Path) -> None:
    token = token_of(file)
    assert (token, now(token), now(None), now("plain")) == (OLD, OLD, None, "plain")
    with capture_logs() as said:
        file.write_text(NEW)
        assert now(token) == NEW
    assert token == OLD, "as of the start"
    assert [(line["event"], line["what"]) for line in said] == [
        ("files-read-again", "secret MINUTEHAND_CLUSTER_TOKEN_FILE")
    ]
    assert NEW not in str(said)


@pytest.mark.parametrize("bad", ["", "short", f"{NEW} short"])
def test_what_the_setting_refuses_is_refused_later_too(file: Path, bad: str) -> None:
    token = token_of(file)
    with capture_logs() as said:
        file.write_text(bad)
        assert [now(token) for _ in range(3)] == [OLD] * 3
    assert [line["event"] for line in said] == ["files-refused"]
    file.write_text(NEW)
    assert now(token) == NEW


def test_of_several_all_are_accepted_and_the_first_is_sent(file: Path) -> None:
    token = token_of(file)
    file.write_text(f"{OLD}\n{NEW}\n")
    assert (sent(token), accepts(token, OLD), accepts(token, NEW)) == (OLD, True, True)
    file.write_text(f"{NEW}\n{OLD}\n")
    assert sent(token) == NEW
    file.write_text(NEW)
    assert (accepts(token, OLD), accepts(token, NEW), accepts(token, "")) == (False, True, False)


async def test_a_change_is_logged_before_it_is_used(file: Path) -> None:
    settings = load_settings(environment={"MINUTEHAND_CLUSTER_TOKEN_FILE": str(file)})
    (secret,) = settings.file_secrets()
    assert isinstance(secret, FileSecret)
    task = asyncio.ensure_future(keep_looking([secret], ManualClock()))
    await asyncio.sleep(0)
    with capture_logs() as said:
        write(file, NEW)
        for _ in range(5):
            await asyncio.sleep(0)
    assert [line["event"] for line in said] == ["files-read-again"]
    task.cancel()


class Node(UnaskedNode):
    incarnation = INCARNATION
    drains = 0

    async def ask(self, *, force: bool) -> None:
        self.drains += 1


async def test_nodes_and_their_callers_change_the_token_without_a_gap(tmp_path: Path) -> None:
    of_node, of_caller = tmp_path / "node", tmp_path / "caller"
    for one in (of_node, of_caller):
        write(one, OLD)
    listener, node = listen(OpsSettings()), Node()
    server = OpsServer(
        listener,
        node=node,
        token=token_of(of_node),
        unhealthy=tuple,
        unready=tuple,
        metrics=Metrics(program="node", version="1"),
    )
    await server.start()
    ports, address = HttpNodePorts(token=token_of(of_caller)), advertised_address(OpsSettings(), listener)
    for words in (f"{OLD}\n{NEW}", f"{NEW}\n{OLD}", NEW):
        for one in (of_node, of_caller):
            write(one, words)
            await ports.drain(INCARNATION, address=address, force=False)
    assert node.drains == 6
    write(of_caller, OLD)
    with pytest.raises(NodeUnreachable, match="both must have the same"):
        await ports.drain(INCARNATION, address=address, force=False)
    async with aiohttp.ClientSession() as session, session.post(f"http://{address}/drain") as answer:
        assert answer.status == 401
    await server.stop()


async def test_the_administrators_key_changes_without_a_restart(file: Path) -> None:
    environment = {"MINUTEHAND_API_ADMIN_KEY_FILE": str(file)}
    api = load_settings(environment=environment).api
    assert api is not None
    authenticate = Authenticate(
        catalog=None,  # type: ignore[arg-type]
        uses=None,  # type: ignore[arg-type]
        clock=ManualClock(),
        admin_key=api.admin_key,
    )
    [before] = authenticate.admin_hashes
    assert await authenticate(f"Bearer {OLD}") is authenticate.admin
    write(file, f"{OLD} {NEW}")
    assert await authenticate(f"Bearer {NEW}") is authenticate.admin
    assert before in authenticate.admin_hashes, "sessions last while their key does"
    write(file, NEW)
    assert before not in authenticate.admin_hashes
    with pytest.raises(Unauthenticated):
        await authenticate(f"Bearer {OLD}")
