"""A deployment with every security option: Cassandra over TLS with a password, the API over TLS, secrets under a key
ring.
"""

import asyncio
import base64
import contextlib
import importlib.util
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from cql.errors import StoreRefused
from cql.session import Session
from cql.settings import StorageSettings
from membership.errors import MinutehandError
from minutehand.client import Callback
from minutehand.local import EmbeddedCassandra, ProgressLines
from minutehand.local.machine import free_ports
from minutehand.processes.programs import clean_environment
from minutehand.webhooks import BadSignatureError, verify
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.key_ring import new_key
from tests.support.cassandra import SHORT_LIVED, SuiteCassandra, select_text
from tests.support.certificates import Authority
from tests.support.processes import Deployment, deployment
from tests.support.watched_jobs import submitted_job, watched_job

HERE = "127.0.0.1"
USER, PASSWORD = "cassandra", "cassandra"
"""The role that Cassandra creates at its first start."""
CREDENTIAL = "canary7f3a"
HEADERS = {"Authorization": f"Bearer {CREDENTIAL}", "X-Api-Key": f"{CREDENTIAL}-key"}
URL = "http://127.0.0.1:9/hook"
"""Nothing listens there."""


class Secured:
    """A Cassandra that accepts TLS and passwords only, and the files needed to reach it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "authority").mkdir()
        self.authority = Authority(directory / "authority")
        certificate, key = self.authority.issue(directory, address=HERE, stem="server")
        pem = directory / "server.pem"
        pem.write_bytes(key.read_bytes() + certificate.read_bytes() + self.authority.bundle.read_bytes())
        native, storage = free_ports(2)
        self._recipe = EmbeddedCassandra(
            data_dir=directory / "data",
            native_port=native,
            storage_port=storage,
            heap_mb=768,
            tls=True,
            java_options=SHORT_LIVED,
            yaml={
                "authenticator": "PasswordAuthenticator",
                "client_encryption_options": {
                    "enabled": True,
                    "optional": False,
                    "require_client_auth": False,
                    "ssl_context_factory": {
                        "class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory",
                    },
                    "keystore": str(pem),
                },
            },
        )

    def start(self) -> SuiteCassandra:
        running = self._recipe.start(ProgressLines())
        return SuiteCassandra(running.contact_points, running.port, running.datacenter, running)

    def submitted(self, storage: StorageSettings, login: Mapping[str, str]) -> dict[str, object]:
        """The arguments of spark-submit, as spark/README.md gives them, with a truststore as an operator would make
        it.
        """
        trusted = self.directory / "trusted.p12"
        (authority,) = x509.load_pem_x509_certificates(self.authority.bundle.read_bytes())
        entry = pkcs12.PKCS12Certificate(authority, b"authority")
        trusted.write_bytes(pkcs12.serialize_java_truststore([entry], serialization.NoEncryption()))
        tls = "spark.cassandra.connection.ssl"
        return {
            "spark.cassandra.connection.host": ",".join(storage.contact_points),
            "spark.cassandra.connection.port": storage.port,
            "spark.minutehand.keyspace": storage.keyspace,
            **{f"spark.minutehand.cassandra.{name}": value for name, value in login.items()},
            f"{tls}.enabled": "true",
            f"{tls}.trustStore.path": trusted,
            f"{tls}.enabledAlgorithms": "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256",
        }

    def settings(self, cassandra: SuiteCassandra, **other: Any) -> StorageSettings:
        given: dict[str, Any] = {"tls_ca_file": str(self.authority.bundle), "username": USER, "password": PASSWORD}
        given.update(other)
        return StorageSettings(
            contact_points=cassandra.contact_points, port=cassandra.port, connect_timeout_seconds=5, **given
        )


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with tempfile.TemporaryDirectory(prefix="minutehand-secured-", ignore_cleanup_errors=True) as scratch:
        yield Secured(Path(scratch))


@pytest.fixture(scope="module")
def locked_cassandra(secured: Secured) -> Iterator[SuiteCassandra]:
    server = secured.start()
    assert server.running is not None
    try:
        assert server.running.answers()
        await_let_in(secured, server)
        yield server
    finally:
        server.running.kill()


def connect(settings: StorageSettings) -> None:
    async def once() -> None:
        await (await Session.open(settings, keyspace=None)).close()

    asyncio.run(once())


def await_let_in(secured: Secured, server: SuiteCassandra) -> None:
    """Wait until the role may log in; it is created a moment after the first answer."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return connect(secured.settings(server))
        except MinutehandError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """The certificate of an authority that has signed nothing here."""
    (tmp_path / "strangers").mkdir()
    return Authority(tmp_path / "strangers").bundle


def test_why_there_is_no_connection_is_one_sentence(
    secured: Secured, locked_cassandra: SuiteCassandra, strangers: Path
) -> None:
    for wrong, words in (
        ({"password": "wrong"}, "refuses the user or the password: see cassandra.username and cassandra.password."),
        ({"username": None, "password": None}, "requires a login: set cassandra.username and cassandra.password"),
        ({"tls_ca_file": str(strangers)}, "has a certificate that no authority in cassandra.tls_ca_file has signed"),
        ({"tls_server_name": "cassandra.example"}, "has a certificate for another name: set cassandra.tls_server_name"),
        ({"tls_ca_file": None}, "closes plain connections: if it speaks only TLS, set cassandra.tls_ca_file."),
    ):
        settings = secured.settings(locked_cassandra, **wrong)
        with pytest.raises(StoreRefused) as caught:
            connect(settings)
        assert words in str(caught.value), wrong
        assert "wrong" not in str(caught.value), "the password is not repeated"
    connect(secured.settings(locked_cassandra, tls_server_name="cassandra.example", tls_check_hostname=False))


def test_a_login_is_read_again_by_new_connections(
    secured: Secured, locked_cassandra: SuiteCassandra, tmp_path: Path
) -> None:
    files = {name: tmp_path / name for name in ("username", "password")}
    settings = secured.settings(
        locked_cassandra,
        username=None,
        password=None,
        username_file=str(files["username"]),
        password_file=str(files["password"]),
    )
    asyncio.run(_change_login(secured.settings(locked_cassandra), settings, files))


async def _change_login(admin: StorageSettings, user: StorageSettings, files: dict[str, Path]) -> None:
    def write(name: str) -> None:
        files["username"].write_text(f"{name}\n")
        files["password"].write_text(f"word-of-{name}\n")

    roles = ("first", "second")
    root = await Session.open(admin, keyspace=None)
    try:
        await root.run_script(
            [f"CREATE ROLE {name} WITH PASSWORD = 'word-of-{name}' AND LOGIN = true" for name in roles]
        )
        await asyncio.to_thread(write, "first")
        session = await Session.open(user, keyspace=None)
        try:
            assert await _connected(root, session) == {"cassandra", "first"}
            await asyncio.to_thread(write, "second")
            assert await _connected(root, session) == {"cassandra", "first", "second"}, "older ones stay as they are"
        finally:
            await session.close()
    finally:
        await root.close()


async def _connected(root: Session, session: Session) -> set[str]:
    """Users with connections, after this session has opened one more as the driver opens them."""
    cluster = session._cluster
    (host,) = cluster.metadata.all_hosts()
    more = await asyncio.to_thread(cluster.connection_factory, host.endpoint)
    try:
        return {name for (name,) in await select_text(root, "SELECT username FROM system_views.clients")}
    finally:
        more.close()


def test_a_signed_call_end_to_end(
    secured: Secured, locked_cassandra: SuiteCassandra, tmp_path: Path, strangers: Path
) -> None:
    certificate, key = secured.authority.issue(tmp_path, address=HERE, stem="api")
    ring, old, new = tmp_path / "ring", *(new_key(name, randomness=SystemRandomness()) for name in ("old", "new"))
    ring.write_text(old)
    words = {name: tmp_path / name for name in ("user", "word")}
    words["user"].write_text(f"{USER}\n")
    words["word"].write_text(f"{PASSWORD}\n")
    tables = {
        "cassandra": {
            "username_file": str(words["user"]),
            "password_file": str(words["word"]),
            "tls_ca_file": str(secured.authority.bundle),
        },
        "secrets": {"key_ring_file": str(ring)},
        "api": {"tls_cert_file": str(certificate), "tls_key_file": str(key)},
    }
    trust = ssl.create_default_context(cafile=secured.authority.bundle)
    receiver = Verifier()
    with (
        contextlib.ExitStack() as parts,
        deployment(locked_cassandra, tmp_path, tables=tables, trust=trust) as cluster,
    ):
        parts.callback(receiver.stop)
        cluster.start_api()
        cluster.start_node("alone")
        with cluster.admin() as admin:
            first = admin.clients.register("shop", poller_quota=1).signing_secret
            client_key = admin.client("shop").keys.create().key
        assert first is not None
        secret = first.secret
        call_comes_signed(cluster, receiver, client_key, secret)
        receiver.calls.clear()
        with cluster.client("shop", client_key) as shop:
            hook = Callback(url=receiver.url, headers=HEADERS)
            shop.schedules.create(hook, delay_seconds=0)
            shop.crons.put("nightly", hook, expression="30 2 * * *", timezone="Etc/UTC")
        await_true(lambda: bool(receiver.calls), seconds=25)
        assert receiver.calls[0][0].items() >= HEADERS.items()
        # The schedule, the cron, and the fires of the cron.
        await_true(lambda: stored(cluster.storage).count("sealed:1:old:") > 2)
        assert CREDENTIAL not in stored(cluster.storage)

        ring.write_text(f"{new}\n{old}")
        done = rotate(cluster)
        assert (done["key_id"], done["encrypted"], done["crons"], done["locked"]) == ("new", 1, 1, [])
        assert rotate(cluster)["current"] == 1
        ring.write_text(new)
        call_comes_signed(cluster, receiver, client_key, secret)

        # A key is missing: calls wait, and are made when it is back.
        ring.write_text(old)
        await_true(lambda: cluster.metrics("alone")["minutehand_clients_locked"] == 1)
        ask_for_call(cluster, receiver, client_key)
        time.sleep(3)
        assert not receiver.calls, "nothing goes out unsigned"
        ring.write_text(f"{new}\n{old}")
        await_true(lambda: bool(receiver.calls), seconds=25)

        listed = command(cluster, "clients", "list", "--json", ca_file=secured.authority.bundle)
        assert "shop" in listed.stdout, listed.stderr
        doubted = command(cluster, "clients", "list", "--json", ca_file=strangers)
        assert doubted.returncode == 1
        assert "name the authorities that signed it with --ca-file or MINUTEHAND_CA_FILE." in doubted.stderr


def test_jobs_log_in_and_show_no_password(secured: Secured, locked_cassandra: SuiteCassandra, tmp_path: Path) -> None:
    """`bulk_load` writes with our own stores in Spark's tasks; `audit_books` and `usage` read with Spark's
    connector.
    """
    assert importlib.util.find_spec("pyspark"), "Spark is not installed: run make acceptance"
    word = new_word(secured.settings(locked_cassandra), "jobs")
    own, key = secured.authority.issue(tmp_path, name="jobs", stem="own")
    (tmp_path / "user").write_text("jobs\n")
    (tmp_path / "word").write_text(f"{word}\n")
    login = {
        "username_file": str(tmp_path / "user"),
        "password_file": str(tmp_path / "word"),
        "tls_ca_file": str(secured.authority.bundle),
        "tls_cert_file": str(own),
        "tls_key_file": str(key),
    }
    now = datetime.now(UTC)
    window = [f"{now + timedelta(hours=ahead):%Y-%m-%dT%H:00:00Z}" for ahead in (2, 3)]
    orders = tmp_path / "orders.jsonl"
    order = {"due": window[0], "callback": {"url": URL, "headers": HEADERS}}
    (tmp_path / "ring").write_text(new_key("first", randomness=SystemRandomness()))
    orders.write_text("".join(f"{json.dumps({'id': number, **order})}\n" for number in range(40)))
    tables = {"cassandra": login, "secrets": {"key_ring_file": str(tmp_path / "ring")}}
    with deployment(locked_cassandra, tmp_path, tables=tables) as cluster:
        cluster.start_api()
        cluster.start_node("alone")
        client_key = cluster.register("shop", poller_quota=1)
        with cluster.client("shop", client_key) as shop:
            shop.schedules.create(Callback(url=URL), due=datetime.fromisoformat(window[0]) + timedelta(minutes=30))
        asked = ["--input", str(orders), "--format", "jsonl", "--client", "shop", "--key", "id"]
        loaded = watched_job(cluster, "bulk_load", *asked)
        assert (loaded.report["added"], loaded.report["rejected"]) == (40, 0)
        rows = stored(cluster.storage)
        assert (rows.count("sealed:1:first:"), CREDENTIAL in rows) == (40, False)
        found = watched_job(cluster, "audit_books", "--client", "shop", "--from", window[0], "--to", window[1])
        (shop_found,) = found.report["clients"]
        assert (shop_found["counts"]["accepted"], shop_found["findings"]) == (41, {})
        submitted = submitted_job(tmp_path, secured.submitted(cluster.storage, login), "usage")
        assert submitted.report["days"][-1]["clients"] == 1
    for ran in (loaded, found, submitted):
        assert any("org.apache.spark.deploy.SparkSubmit" in line for line in ran.command_lines), "Java was looked at"
        for hidden in (word, "spark.cassandra.auth", "tore.password"):
            assert not [line for line in ran.command_lines if hidden in line], hidden
        assert not ran.left
    private = {"": 0o700, "trusted.p12": 0o600, "own.p12": 0o600}
    assert (loaded.kept, found.kept, submitted.kept) == (private, private, {})


class Verifier:
    """A receiver that keeps its requests, so that they can be verified as any receiver would."""

    def __init__(self) -> None:
        calls = self.calls = list[tuple[dict[str, str], bytes]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                calls.append((dict(self.headers), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((HERE, 0), Handler)
        self.url = f"http://{HERE}:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def call_comes_signed(cluster: Deployment, receiver: Verifier, client_key: str, secret: str) -> None:
    ask_for_call(cluster, receiver, client_key)
    await_true(lambda: bool(receiver.calls), seconds=25)
    ((headers, body),) = receiver.calls
    verify(body, headers, secret)
    with pytest.raises(BadSignatureError):
        verify(body, headers, "whsec_" + base64.b64encode(bytes(32)).decode())


def new_word(admin: StorageSettings, role: str) -> str:
    """The password of a new role, a text that occurs nowhere else on this machine."""
    word = SystemRandomness().secret_bytes(16).hex()

    async def create() -> None:
        root = await Session.open(admin, keyspace=None)
        try:
            await root.run_script([f"CREATE ROLE {role} WITH PASSWORD = '{word}' AND LOGIN = true"])
        finally:
            await root.close()

    asyncio.run(create())
    return word


def stored(storage: StorageSettings) -> str:
    """Every row of every table, as a reader of the database sees them, followed by the decoded blobs."""

    async def read() -> str:
        session = await Session.open(storage, keyspace=storage.keyspace)
        try:
            of_it = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
            tables = await select_text(session, of_it, (storage.keyspace,))
            rows = str([await select_text(session, f"SELECT JSON * FROM {table}") for (table,) in tables])
            blobs = re.findall(r'"0x((?:[0-9a-f]{2})+)"', rows)
            return rows + "".join(bytes.fromhex(blob).decode(errors="replace") for blob in blobs)
        finally:
            await session.close()

    return asyncio.run(read())


def ask_for_call(cluster: Deployment, receiver: Verifier, client_key: str) -> None:
    receiver.calls.clear()
    with cluster.client("shop", client_key) as shop:
        shop.schedules.create(Callback(url=receiver.url, json={"n": 1}), delay_seconds=0)


def rotate(cluster: Deployment) -> dict[str, Any]:
    done = command(cluster, "secrets", "rotate", "--config", str(cluster.directory / "minutehand.toml"), "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def command(cluster: Deployment, *arguments: str, ca_file: Path | None = None) -> "subprocess.CompletedProcess[str]":
    trusted = [] if ca_file is None else ["--ca-file", str(ca_file)]
    variables = {"MINUTEHAND_URL": cluster.api_url, "MINUTEHAND_KEY": cluster.admin_key}
    return subprocess.run(
        [sys.executable, "-m", "minutehand", *trusted, *arguments],
        env={**clean_environment(os.environ), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def await_true(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not become so"
        time.sleep(0.2)
