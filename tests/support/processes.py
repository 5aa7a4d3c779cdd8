"""Whole processes for acceptance tests and the bench: an API, nodes and a receiver over one Cassandra.

They end with this process. Ports are free ones; files are written to the given directory.
"""

import asyncio
import secrets
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from cql.migrate import migrate
from cql.session import Session
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from minutehand.client import ClientScope, ClientSettings, Minutehand, MinutehandClientError
from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from minutehand.reference_pages import toml
from scheduler_service.domain.notices import EVENTS_POLLERS
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.clients import CRON_POLLERS
from tests.support.cassandra import SuiteCassandra
from tests.support.keyspaces import Form, empty, form_of
from tests.support.receiver import host_address

Tables = Mapping[str, Mapping[str, Any]]


class Receiver:
    """Runs `tests.support.receiver` as a process."""

    def __init__(
        self, directory: Path, *, port: int | None = None, hosts: int = 0, tls: tuple[Path, Path] | None = None
    ) -> None:
        """`hosts`: the number of further addresses to listen at. `tls`: the files of a certificate for 127.0.0.1 and
        its key, to listen with TLS too.
        """
        self._port = port or free_ports(1)[0]
        arguments = ["--port", str(self._port), "--hosts", str(hosts)]
        self.secure_url = ""
        if tls is not None:
            (secure,) = free_ports(1)
            self.secure_url = f"https://127.0.0.1:{secure}/callbacks"
            certificate, key = map(str, tls)
            arguments += ["--tls-port", str(secure), "--certificate", certificate, "--private-key", key]
        self.program = Program(
            "receiver", arguments, log_file=directory / "receiver.log", module="tests.support.receiver"
        )
        self.program.await_ready(f"http://127.0.0.1:{self._port}/livez")
        self.url = f"http://127.0.0.1:{self._port}/callbacks"
        self.host_urls = [f"http://{host_address(number)}:{self._port}/callbacks" for number in range(hosts)]

    def count(self) -> int:
        """How many different schedules were called since the last `forget`. A cheap request."""
        return int(self._get("/count"))

    def await_count(self, count: int, *, seconds: float) -> int:
        """Wait until this many schedules were called or the time is over; returns the number."""
        deadline = time.monotonic() + seconds
        while (seen := self.count()) < count and time.monotonic() < deadline:
            time.sleep(0.2)
        return seen

    def report(self) -> dict[str, Any]:
        """Counts and lateness of the calls since the last `forget`."""
        return dict(self._get("/report"))

    def calls(self) -> list[dict[str, Any]]:
        """All calls since the last `forget`."""
        return list(self._get("/calls"))

    def words(self) -> dict[str, int]:
        """How many words about calls with `ack` were told, by the status of the answer."""
        return dict(self._get("/words"))

    def forget(self) -> None:
        httpx.post(f"http://127.0.0.1:{self._port}/forget", timeout=30, trust_env=False).raise_for_status()

    def _get(self, path: str) -> Any:
        return httpx.get(f"http://127.0.0.1:{self._port}{path}", timeout=60, trust_env=False).raise_for_status().json()


class Deployment:
    """One keyspace, its API and its nodes. Made by `deployment`."""

    def __init__(
        self,
        cassandra: SuiteCassandra,
        directory: Path,
        *,
        keyspace: str,
        tables: Tables,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`trust`: how clients verify the API's certificate, where `tables` give it one."""
        self.directory = directory
        self.admin_key = secrets.token_hex(24)
        self.token = secrets.token_hex(24)
        """The cluster's token, which permits hints to nodes."""
        self.api_port, *self._spare = free_ports(16)
        self._trust = trust
        self.api_url = f"{'http' if trust is None else 'https'}://127.0.0.1:{self.api_port}"
        self.receiver = Receiver(directory)
        self.programs: dict[str, Program] = {}
        self._health_url = self.api_url
        self._node_ports: dict[str, int] = {}
        self._settings = directory / "minutehand.toml"
        self.storage = StorageSettings(
            contact_points=cassandra.contact_points,
            port=cassandra.port,
            local_dc=cassandra.datacenter,
            keyspace=keyspace,
            replication_factor=cassandra.replication_factor,
            **tables.get("cassandra", {}),
        )
        self._write_settings(cassandra, keyspace, tables)

    def migrate(self) -> None:
        """Create the keyspace with the replication factor of its Cassandra."""
        asyncio.run(migrate(self.storage, clock=SystemClock(), randomness=SystemRandomness()))

    def start_api(self, *, processes: int = 1, variables: Mapping[str, str] | None = None) -> Program:
        """Start an API with all its processes. Waits until it is ready if there is a node; otherwise `start_node`
        does.
        """
        settings = dict(variables or {})
        self._health_url = self.api_url
        if processes > 1:
            port = settings.setdefault("MINUTEHAND_HEALTH_PORT", str(self._spare.pop()))
            self._health_url = f"http://127.0.0.1:{port}"
        program = self.start("api", ["api", "--processes", str(processes)], variables=settings)
        self._await_api(program)
        return program

    def start_node(
        self,
        node_id: str,
        *,
        ready: bool = True,
        tree: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Program:
        """Start a node; with `ready`, wait until it is trusted. `tree`: the source tree to run instead of this one."""
        port = self._node_ports.setdefault(node_id, self._spare[len(self._node_ports)])
        arguments = [node_command(tree), "--processes", "1", "--node-id", node_id]
        settings = {"MINUTEHAND_OPS_PORT": str(port), **(variables or {})}
        program = self.start(node_id, arguments, variables=settings, tree=tree)
        if ready:
            program.await_ready(f"http://127.0.0.1:{port}/readyz")
            if (api := self.programs.get("api")) is not None and api.exit_code() is None:
                self._await_api(api)
        return program

    def stop_one(self, name: str) -> None:
        """Stop one process by its signal, if it still runs."""
        self.programs.pop(name).stop()

    def metrics(self, node_id: str) -> dict[str, float]:
        """Metrics of a node that `start_node` began, by sample."""
        url = f"http://127.0.0.1:{self.ops_port(node_id)}/metrics"
        text = httpx.get(url, timeout=30, trust_env=False).raise_for_status().text
        samples = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def ops_port(self, node_id: str) -> int:
        """The port at which a node that `start_node` began answers probes."""
        return self._node_ports[node_id]

    def start_nodes(self, node_id: str, *, processes: int) -> Program:
        """Start several nodes by one command each, and wait until they are members."""
        return self.start(node_id, ["node", "--processes", str(processes), "--node-id", node_id])

    def admin(self) -> Minutehand:
        return Minutehand(self.api_url, self.admin_key, timeout_seconds=60, retries=0, ssl_context=self._trust)

    def register(
        self, client_id: str, *, poller_quota: int, max_crons: int | None = None, event_feed: bool = False
    ) -> str:
        """Register a client with a signing secret; returns a key of it."""
        # No test here is about the limit of creates.
        settings: ClientSettings = {"create_rate_per_second": 1_000_000}
        if max_crons is not None:
            settings["max_crons"] = max_crons
        if event_feed:
            settings["event_feed"] = True
        with self.admin() as api:
            api.clients.register(client_id, poller_quota=poller_quota, settings=settings)
            return api.client(client_id).keys.create().key

    def await_owners(self, names: Collection[str], *, pollers: int, seconds: float = 40.0) -> None:
        """Wait until exactly these nodes are live, each owns some of the pollers, and together they own all: this many
        of the registered clients, and those of the built-in ones. And until the API takes creates: it lists nodes as
        storage has them, a moment before it has seen their clocks.
        """
        deadline = time.monotonic() + seconds
        with self.admin() as api:
            while True:
                found = api.cluster()
                living = {node.node_id: node.pollers for node in found.nodes if node.state == "live"}
                if (
                    living.keys() == set(names)
                    and all(living.values())
                    and sum(living.values()) == pollers + CRON_POLLERS + EVENTS_POLLERS
                ):
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{names} do not own all {pollers} pollers after {seconds} s: {found}")
                time.sleep(0.2)
        if (program := self.programs.get("api")) is not None and program.exit_code() is None:
            self._await_api(program)

    @contextmanager
    def client(self, client_id: str, key: str) -> Iterator[ClientScope]:
        with Minutehand(self.api_url, key, timeout_seconds=60, retries=0, ssl_context=self._trust) as api:
            yield api.client(client_id)

    def stop(self) -> None:
        """Stop everything, nodes first."""
        for name in sorted(self.programs, key=lambda name: name == "api"):
            self.programs.pop(name).stop()
        self.receiver.program.stop(2.0)

    def _await_api(self, program: Program) -> None:
        """Wait until the API is ready; or, without a node to compare its clock with, until it has started."""
        ready = any(one.exit_code() is None for name, one in self.programs.items() if name != "api")
        if self._trust is None:
            program.await_ready(f"{self._health_url}/{'readyz' if ready else 'livez'}")
            if not ready:
                self._await_started(program)
        else:
            self._await_secured(program, ready=ready)

    def _await_started(self, program: Program, *, seconds: float = 60.0) -> None:
        """Wait until no process says that it is starting, or not running yet."""
        deadline = time.monotonic() + seconds
        while True:
            # What answers while the API starts gives the port up to it; a connection may be reset in between.
            with suppress(httpx.HTTPError):
                reasons = httpx.get(f"{self._health_url}/readyz", timeout=30, trust_env=False).json()["reasons"]
                if not {"starting", "process-down"} & {one["reason"] for one in reasons}:
                    return
            if program.exit_code() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"the API has not started: {program.last_words()}")
            time.sleep(0.05)

    def _await_secured(self, program: Program, *, ready: bool, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        with self.admin() as api:
            while True:
                try:
                    health = api.health()
                    if health.ready or not (ready or "starting" in {one.reason for one in health.reasons}):
                        return
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"the API is not ready: {api.health()}")
                except MinutehandClientError as error:
                    if program.exit_code() is not None or time.monotonic() > deadline:
                        raise TimeoutError(f"the API is not ready: {program.last_words()}") from error
                time.sleep(0.1)

    def start(
        self,
        name: str,
        arguments: list[str],
        *,
        variables: Mapping[str, str] | None = None,
        tree: Path | None = None,
    ) -> Program:
        """Start `minutehand ARGUMENTS` with the deployment's settings, and end the process that had the name. `tree`:
        the source tree to run instead of this one.
        """
        if (former := self.programs.pop(name, None)) is not None:
            former.stop()
        program = Program(
            name,
            [*arguments, "--config", str(self._settings)],
            log_file=self.directory / f"{name}-{secrets.token_hex(2)}.log",
            variables=variables,
            directory=tree,
        )
        self.programs[name] = program
        return program

    def _write_settings(self, cassandra: SuiteCassandra, keyspace: str, tables: Tables) -> None:
        document: dict[str, dict[str, Any]] = {
            "cluster": {"token": self.token},
            "cassandra": {
                "contact_points": cassandra.contact_points,
                "port": cassandra.port,
                "local_dc": cassandra.datacenter,
                "keyspace": keyspace,
            },
            "api": {"admin_key": self.admin_key, "port": self.api_port},
            "network": {"allow": ("127.0.0.0/8",)},
        }
        for name, values in tables.items():
            document.setdefault(name, {}).update(values)
        lines = []
        for name, given in document.items():
            lines += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in given.items())]
        self._settings.write_text("\n".join(lines) + "\n", encoding="utf-8")


def node_command(tree: Path | None) -> str:
    """The command of a node; an older source tree may name it otherwise."""
    servers = None if tree is None else (tree / "minutehand" / "cli" / "servers.py").read_text()
    return "node" if servers is None or "def node(" in servers else "poller"


@contextmanager
def deployment(
    cassandra: SuiteCassandra,
    directory: Path,
    *,
    tables: Tables | None = None,
    migrated: bool = True,
    trust: ssl.SSLContext | None = None,
) -> Iterator[Deployment]:
    """An empty keyspace, migrated by default, and a receiver. Tests start the API and nodes that they need.

    On a server that ends with this session, a migrated keyspace is emptied at the end for the next deployment. Else it
    is dropped.
    """
    again = migrated and cassandra.running is not None and "cassandra" not in (tables or {})
    with ExitStack() as parts:
        emptied = cassandra.emptied.pop() if again and cassandra.emptied else None
        keyspace = emptied or f"accept_{secrets.token_hex(4)}"
        built = Deployment(cassandra, directory, keyspace=keyspace, tables=tables or {}, trust=trust)
        leave = parts.enter_context(ExitStack())
        leave.callback(drop_keyspace, built.storage)
        parts.callback(built.stop)
        if migrated and emptied is None:
            built.migrate()
        if again:
            leave.pop_all()
            leave.callback(_leave, built.storage, form_of(built.storage), cassandra.emptied)
        yield built


def _leave(storage: StorageSettings, form: Form, emptied: list[str]) -> None:
    """Empty a keyspace for the next deployment, or drop it if its schema was changed."""
    if empty(storage, form):
        emptied.append(storage.keyspace)
    else:
        drop_keyspace(storage)


def drop_keyspace(storage: StorageSettings) -> None:
    """Drop a keyspace. One that is kept costs the server 15 MB of heap before any row, and the last tests of a session
    would wait for its flushes and garbage collections.
    """

    async def drop() -> None:
        session = await Session.open(storage, keyspace=None)
        try:
            await session.run_script([f"DROP KEYSPACE IF EXISTS {storage.keyspace}"])
        finally:
            await session.close()

    # A server that a test has ended for good has a directory of its own, which is deleted with it.
    with suppress(StoreUnavailable):
        asyncio.run(drop())
