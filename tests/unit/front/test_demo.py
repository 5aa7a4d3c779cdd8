"""The files that the demo keeps in its directory, and its receiver."""

import asyncio
import base64
import json
import os
import shutil
import signal
import stat
import subprocess
import sysconfig
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import aiohttp
import anyio
import pytest

from minutehand.client import AsyncMinutehand
from minutehand.config import FOR_API, load_settings
from minutehand.errors import LocalError
from minutehand.local.demo.cluster import ClusterOptions, DemoCluster, run_until_interrupted, signals_interrupt
from minutehand.local.demo.files import CLIENT_ID, DemoDirectory, DemoPlan, DemoProcesses, DemoState
from minutehand.local.demo.receiver import OUT_OF_ORDER, Arrival, DemoReceiver
from minutehand.local.demo.show import bigben_lines, goscheduler_lines, register, shell_lines
from minutehand.local.demo.spark_show import PipelineShow
from minutehand.local.errors import DataDirLocked, PortBusy, TooLittleMemory
from minutehand.local.file_lock import FileLock
from minutehand.local.machine import free_ports
from minutehand.local.progress import silent
from minutehand.local.state import lock_path
from minutehand.processes.programs import clean_environment
from poller_cluster.delivery.headers import sign
from poller_cluster.ops.server import OpsSettings, listen
from scheduler_service.domain.instants import format_instant
from tests.support.api import ADMIN_KEY, ApiHarness

SECRET = "whsec_" + "A" * 43 + "="
STATE = DemoState(
    api_url="http://127.0.0.1:1",
    admin_key="a",
    client_id="demo",
    client_key="c",
    signing_secret="s",
    receiver_url="http://127.0.0.1:2/callbacks",
    pids=DemoProcesses(cassandra=1, api=(2,), nodes=(3, 4)),
)


@pytest.fixture
def directory(tmp_path: Path) -> DemoDirectory:
    return DemoDirectory(tmp_path / "demo")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_state_is_its_owners_alone_and_has_exactly_the_promised_keys(directory: DemoDirectory) -> None:
    with ExitStack() as running:
        directory.claim(running)
        directory.write_state(STATE)
        assert mode(directory.path) == 0o700
        assert mode(directory.state) == 0o600
        assert json.loads(directory.state.read_text()) == {
            **asdict(STATE),
            "pids": {"cassandra": 1, "api": [2], "nodes": [3, 4]},
        }
        directory.clear_state()
        directory.clear_state()
        assert not directory.state.exists()


def test_a_shell_that_takes_its_lines_reaches_it(directory: DemoDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    lines = shell_lines(STATE, settings=directory.path / "it's here" / "demo.toml")
    program = "\n".join([*lines, "env", "command -v minutehand"])
    shell = subprocess.run(
        ["/bin/sh", "-euc", program], capture_output=True, text=True, check=True, env={"PATH": "/bin"}
    )
    environment = dict(line.split("=", 1) for line in shell.stdout.splitlines() if "=" in line)
    assert environment["MINUTEHAND_CONFIG"] == str(directory.path / "it's here" / "demo.toml")
    assert (environment["MINUTEHAND_URL"], environment["MINUTEHAND_KEY"]) == (STATE.api_url, STATE.admin_key)
    assert (environment["API"], environment["KEY"], environment["ADMIN_KEY"]) == (STATE.api_url, "c", "a")
    assert (environment["CLIENT"], environment["RECEIVER"]) == ("demo", STATE.receiver_url)
    assert environment["SIGNING_SECRET"] == "s"
    assert shell.stdout.splitlines()[-1] == str(Path(sysconfig.get_path("scripts")) / "minutehand")


def test_the_demo_leaves_a_path_with_the_command_unchanged(
    directory: DemoDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"))
    assert not [line for line in shell_lines(STATE, settings=directory.settings) if "PATH=" in line]


async def test_its_key_manages_its_client_and_stays_unless_it_may_do_less() -> None:
    async with ApiHarness() as api:
        assert api.server is not None
        url = f"http://127.0.0.1:{api.server.port}"
        async with AsyncMinutehand(url, ADMIN_KEY) as admin:
            first = await register(admin, admin_key=ADMIN_KEY, known=None)
            assert await register(admin, admin_key=ADMIN_KEY, known=first) == first
            await admin.client("demo").change_settings({"timeout_seconds": 5})
            older = await admin.client("demo").keys.create(scope="write")
            known = replace(first, client_key_id=older.key_id, client_key=older.key)
            second = await register(admin, admin_key=ADMIN_KEY, known=known)
        assert (second.secret_id, second.signing_secret) == (first.secret_id, first.signing_secret)
        async with AsyncMinutehand(url, second.client_key) as own:
            assert (await own.client("demo").get()).settings["timeout_seconds"] == 5.0
            valid = [one for one in await own.client("demo").keys.list() if one.revoked_at is None]
        assert [(one.key_id, one.scope) for one in valid] == [(second.client_key_id, "manage")]


def test_two_demos_keep_out_of_each_others_way(directory: DemoDirectory) -> None:
    with ExitStack() as running:
        directory.claim(running)
        directory.write_state(STATE)
        with ExitStack() as other, pytest.raises(LocalError, match=r"Another demo runs in .*choose another directory"):
            DemoDirectory(directory.path).claim(other)
        assert directory.state.exists(), "the second one cleared what belongs to the first"
    with ExitStack() as again:
        directory.claim(again)
        assert not directory.state.exists(), "what a killed demo left is believed"


def store(directory: DemoDirectory, *more: str) -> list[Path]:
    """Files of a demo, with somebody else's files beside them."""
    directory.mark()
    others = ("mine", "logs/mine.log")
    stored = [directory.cassandra / "data" / "minutehand" / "rows", directory.log_file("api")]
    stored += [directory.path / name for name in (*others, *more)]
    for path in stored:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return stored


def unchecked(freed_bytes: int) -> None:
    pass


def refused(directory: DemoDirectory, *, says: str) -> None:
    with ExitStack() as running, pytest.raises(LocalError, match=says):
        directory.claim(running)


def test_only_what_a_demo_stored_is_deleted(directory: DemoDirectory) -> None:
    rows, log, *others = store(directory)
    directory.log_file("node-2").touch()
    assert directory.has_data
    directory.delete_data(unchecked)
    assert not rows.exists()
    assert sorted(path.name for path in log.parent.iterdir()) == ["DEMO.TAG", "mine.log"]
    assert all(path.exists() for path in others)
    assert not directory.has_data
    with ExitStack() as running:
        directory.claim(running)


@pytest.mark.parametrize("folder", ["cassandra", "logs"])
def test_a_folder_that_no_demo_made_is_refused_and_kept(directory: DemoDirectory, folder: str) -> None:
    file = directory.path / folder / "mine"
    file.parent.mkdir(parents=True)
    file.touch()
    directory.ports.write_text('{"api": 1, "receiver": 2}')
    refused(
        directory, says=rf"A demo would write to \S+/{folder}, .* Choose another directory with --dir, or delete by "
    )
    directory.delete_data(unchecked)
    assert file.exists()
    assert not directory.has_data
    assert not (directory.path / "demo.lock").exists(), "it writes to a directory that it refuses"


@pytest.mark.parametrize("other", ["file", "dangling link"])
def test_what_is_no_folder_is_refused(directory: DemoDirectory, other: str) -> None:
    directory.path.mkdir()
    if other == "file":
        directory.cassandra.touch()
    else:
        directory.cassandra.symlink_to(directory.path / "nowhere")
    refused(directory, says="A demo would write to")


def test_a_folder_in_the_place_of_a_demos_is_foreign(directory: DemoDirectory) -> None:
    store(directory)
    directory.cassandra.rename(directory.path / "before")
    (directory.cassandra / "mine").mkdir(parents=True)
    refused(directory, says="A demo would write to")


def test_a_start_that_is_refused_marks_nothing(directory: DemoDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*arguments: object, **options: object) -> None:
        raise TooLittleMemory(needed_mb=2, available_mb=1, heap_mb=1)

    rows, *_ = store(directory)
    monkeypatch.setattr("minutehand.local.demo.cluster.check_cassandra", no_memory)
    cluster = DemoCluster(ClusterOptions(directory=directory.path), say=lambda line: None, progress=silent)
    with ExitStack() as running, pytest.raises(TooLittleMemory):
        cluster.start(running, fresh=True)
    assert rows.exists(), "it was deleted although the demo can't start"
    (port,) = free_ports(1)
    with listen(OpsSettings(port=port)):
        empty = directory.path / "empty"
        cluster = DemoCluster(ClusterOptions(directory=empty, api_port=port), say=lambda line: None, progress=silent)
        with ExitStack() as running:
            cluster.directory.claim(running)
            with pytest.raises(PortBusy):
                cluster.start(running, fresh=True)
    assert [path.name for path in empty.iterdir()] == ["demo.lock"]


def test_a_demo_that_never_stored_anything_left_no_data(directory: DemoDirectory) -> None:
    directory.mark()
    (directory.cassandra / "conf").mkdir()
    assert not directory.has_data


def test_a_check_counts_the_disk_space_to_be_freed(directory: DemoDirectory) -> None:
    rows, *_ = store(directory)
    rows.write_bytes(b"x" * 1_000_000)
    freed: list[int] = []
    directory.delete_data(freed.append)
    assert 1_000_000 <= freed[0] < 1_100_000
    directory.delete_data(freed.append)
    assert len(freed) == 1, "there is nothing to delete"


def test_the_outputs_of_the_pipeline_are_deleted_by_their_own_demo_only(directory: DemoDirectory) -> None:
    pipeline = DemoDirectory(directory.path, outputs=(PipelineShow.OUTPUT,))
    *_, orders = store(pipeline, "pipeline/orders.parquet")
    directory.delete_data(unchecked)
    assert orders.exists()
    shutil.rmtree(pipeline.cassandra)
    pipeline.delete_data(unchecked)
    assert not orders.exists()
    (orders.parent / "DEMO.TAG").unlink()
    orders.touch()
    refused(pipeline, says="A demo would write to .*pipeline, ")


@pytest.mark.parametrize("name", ["cassandra", "cassandra/data"])
def test_nothing_is_deleted_behind_a_link(directory: DemoDirectory, tmp_path: Path, name: str) -> None:
    rows, log, *_ = store(directory)
    linked = directory.path / name
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LocalError, match=r"is a symbolic link, .* Delete by hand what is in \S+/elsewhere, or choose"):
        directory.delete_data(unchecked)
    assert rows.exists()
    assert log.exists()
    shutil.rmtree(tmp_path / "elsewhere")
    if name == "cassandra":
        (tmp_path / "elsewhere").mkdir()
        directory.delete_data(unchecked)
        with ExitStack() as running:
            directory.claim(running)


def test_another_file_system_in_the_data_is_left_alone(
    directory: DemoDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, *_ = store(directory)
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name in ("cassandra", "data"))
    with pytest.raises(LocalError, match=r"mounted on \S+/cassandra/data, .* Unmount it"):
        directory.delete_data(unchecked)
    assert rows.exists()


def test_a_mount_point_is_emptied(directory: DemoDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses to remove one."""
    rows, *_ = store(directory)
    (directory.cassandra / "lost+found").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == directory.cassandra)
    before = directory.cassandra.stat().st_ino
    directory.delete_data(unchecked)
    assert (directory.cassandra / "lost+found").is_dir()
    assert not rows.exists()
    assert directory.cassandra.stat().st_ino == before


def test_an_interrupted_deletion_leaves_no_half_data(directory: DemoDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, *_ = store(directory)
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            directory.delete_data(unchecked)
    assert not directory.has_data
    assert not rows.exists()
    rows.parent.mkdir(parents=True)
    directory.delete_data(unchecked)
    assert sorted(path.name for path in directory.cassandra.iterdir()) == ["DEMO.TAG", "server.lock"]


def interrupt(path: Path) -> None:
    raise KeyboardInterrupt


def test_nothing_is_deleted_under_a_cassandra_that_runs(directory: DemoDirectory) -> None:
    rows, *_ = store(directory)
    server = FileLock(lock_path(directory.cassandra))
    assert server.try_acquire()
    try:
        with pytest.raises(DataDirLocked, match="Another Cassandra runs on"):
            directory.delete_data(unchecked)
        assert rows.exists()
    finally:
        server.release()


def test_ports_are_kept_while_they_are_free(directory: DemoDirectory) -> None:
    with ExitStack() as running:
        directory.claim(running)
        api, receiver, nodes = directory.choose_ports(api=None, receiver=None, nodes=2)
        assert len({api, receiver, *nodes}) == 4
        assert not directory.ports.exists(), "a start that fails may have chosen them"
        directory.write_settings(
            DemoPlan(cassandra_port=1, api_port=api, receiver_port=receiver, node_ports=tuple(nodes))
        )
        assert directory.choose_ports(api=None, receiver=None, nodes=1)[:2] == (api, receiver)
        with listen(OpsSettings(port=api)):
            assert directory.choose_ports(api=None, receiver=None, nodes=1)[0] != api
            with pytest.raises(PortBusy, match=r"choose another port with --api-port\."):
                directory.choose_ports(api=api, receiver=None, nodes=1)
        directory.ports.write_text("[]")
        directory.choose_ports(api=None, receiver=None, nodes=1)


def test_the_written_settings_are_good_ones(directory: DemoDirectory) -> None:
    plan = DemoPlan(cassandra_port=1111, api_port=2222, receiver_port=3333, node_ports=(4444,))
    with ExitStack() as running:
        directory.claim(running)
        directory.write_settings(plan)
        assert mode(directory.settings) == 0o600
        settings = load_settings(environment={}, file=directory.settings, required=FOR_API)
    assert settings.api is not None
    assert (settings.api.port, settings.cassandra.port) == (2222, 1111)
    assert (settings.api.admin_key, settings.cluster.token) == (plan.admin_key, plan.token)
    assert settings.network.check_url(plan.receiver_url) is None
    assert settings.network.check_url("http://10.0.0.1/") is not None
    assert settings.api.acknowledgements.base_url == plan.api_url, "callbacks with `ack` are refused"


def test_other_systems_programs_are_served_where_the_demo_was_asked_to(directory: DemoDirectory) -> None:
    plan = DemoPlan(cassandra_port=1111, api_port=2222, receiver_port=3333, node_ports=(4444,))
    with ExitStack() as running:
        directory.claim(running)
        for asked, client, keyless in ((False, None, None), (True, CLIENT_ID, "manage")):
            directory.write_settings(replace(plan, bigben=asked))
            settings = load_settings(environment={}, file=directory.settings, required=FOR_API)
            assert settings.api is not None
            assert (settings.api.bigben.client, settings.api.bigben.keyless) == (client, keyless)
            assert bool(bigben_lines(replace(plan, bigben=asked))) is asked


@pytest.mark.parametrize("served", [False, True])
def test_goschedulers_programs_are_served_on_request(directory: DemoDirectory, served: bool) -> None:
    plan = DemoPlan(cassandra_port=1, api_port=2222, receiver_port=3, node_ports=(4,), goscheduler=served)
    with ExitStack() as running:
        directory.claim(running)
        directory.write_settings(plan)
        settings = load_settings(environment={}, file=directory.settings, required=FOR_API)
    assert settings.api is not None
    assert settings.api.goscheduler.clients() == ({"test": "test", "Athena": "athena"} if served else {})
    said = "\n".join(goscheduler_lines(plan))
    assert ("http://127.0.0.1:2222/goscheduler" in said) is served


def test_programs_do_not_inherit_the_callers_settings() -> None:
    given = {"PATH": "p", "MINUTEHAND_API_PORT": "1", "MINUTEHAND_KEY": "k", "MINUTEHAND_CACHE_DIR": "c"}
    assert clean_environment(given) == {"PATH": "p", "MINUTEHAND_CACHE_DIR": "c"}


class Heard:
    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        (self.port,) = free_ports(1)
        self.receiver = DemoReceiver(port=self.port, secret=SECRET, on_arrival=self.arrivals.append)

    async def call(
        self,
        body: bytes,
        *,
        id_: str = "the-id",
        secret: str = SECRET,
        due_ms: int = 0,
        ack_url: str | None = None,
        path: str = "",
    ) -> tuple[int, str]:
        timestamp = int(time.time())
        headers = {
            "webhook-id": id_,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign([base64.b64decode(secret[6:])], id_, timestamp, body),
            "Minutehand-Due": format_instant(due_ms),
            **({} if ack_url is None else {"Minutehand-Ack-Url": ack_url}),
        }
        url = f"http://127.0.0.1:{self.port}/callbacks{path}"
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    found = Heard()
    await found.receiver.start()
    yield found
    await found.receiver.stop()


async def test_the_receiver_tells_verified_callbacks_from_others(heard: Heard) -> None:
    assert await heard.call(b"{}", due_ms=round(time.time() * 1000) - 250) == (204, "")
    status, said = await heard.call(b"{}", id_="forged", secret="whsec_" + "B" * 43 + "=")
    assert status == 401
    assert "no signature matches" in said, "`schedules attempts` shows it"
    right, wrong = heard.arrivals
    assert right.callback is not None
    assert right.lateness_seconds is not None
    assert 0.2 < right.lateness_seconds < 5
    assert (wrong.callback, wrong.lateness_seconds) == (None, None)
    assert wrong.refusal is not None
    assert "no signature matches" in wrong.refusal
    assert await heard.receiver.await_verified({"the-id"}, seconds=0) == set()
    assert await heard.receiver.await_verified({"the-id", "forged"}, seconds=0) == {"forged"}


async def test_a_callback_that_may_be_acknowledged_later_is_taken_by_202(heard: Heard) -> None:
    assert await heard.call(b"{}", ack_url="http://127.0.0.1:1/a") == (202, "")
    (arrival,) = heard.arrivals
    assert arrival.callback is not None
    assert arrival.callback.ack_url == "http://127.0.0.1:1/a"


async def test_one_of_its_addresses_fails(heard: Heard) -> None:
    status, said = await heard.call(b"{}", path=OUT_OF_ORDER)
    assert (status, "always fails" in said) == (503, True)
    assert [one.status for one in heard.arrivals] == [503]
    assert await heard.receiver.await_verified({"the-id"}, seconds=0) == {"the-id"}
    assert (await heard.call(b"{}", path=OUT_OF_ORDER, secret="whsec_" + "B" * 43 + "="))[0] == 401


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_within_a_task_group_is_an_interrupt(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def interrupted() -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    async def work() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(interrupted)

    with signals_interrupt():
        handler = signal.getsignal(number)
        with pytest.raises(KeyboardInterrupt):
            run_until_interrupted(work())
        assert signal.getsignal(number) is handler
    assert capsys.readouterr().err == ""
    assert caplog.messages == []


def test_a_file_of_targets_that_no_api_would_start_with_stops_the_start(
    directory: DemoDirectory, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[nowhere]\n[kafka]\n", encoding="utf-8")
    options = ClusterOptions(directory=directory.path, targets=own)
    cluster = DemoCluster(options, say=lambda line: None, progress=silent)
    with ExitStack() as running, pytest.raises(LocalError, match=r"\[nowhere\] .* \[kafka\] .*--targets"):
        cluster.start(running, fresh=False)
    assert not directory.settings.exists()
    assert not directory.cassandra.exists()
