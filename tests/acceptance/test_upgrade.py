"""A rolling upgrade: the programs before their last change and the current ones, together on one cluster.

    old migrate, API, node --> new migrate --> new node, new API beside them --> the old ones are told to end

Both APIs create schedules throughout, crons fire every minute, and pollers move from old to new. Nothing is lost, and
every repeated call says that it is one. MINUTEHAND_UPGRADE_FROM names another revision to start from.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from minutehand.client import Callback, Minutehand
from minutehand.local.machine import free_ports
from minutehand.processes.programs import clean_environment
from minutehand.version import VERSION
from scheduler_service.domain.crons import spread_offset_ms
from scheduler_service.domain.ids import MINUTE_MS, ClientId, CronId
from tests.support.cassandra import SuiteCassandra
from tests.support.connections import Kept, kept_connections
from tests.support.processes import Deployment, deployment

CLIENT = "upgraded"
QUOTA = 16
CRONS = 60
SPREAD_SECONDS = 55
MARK = "+before"
"""Appended to the old sources' version, so that a process shows which sources it runs."""
PHASE_SECONDS = 4.0
PATIENCE_SECONDS = 120.0
CALLED_WITHIN_SECONDS = 20.0
ROOT = Path(__file__).parents[2]
ROOMS = ("minutehand", "scheduler_service", "poller_cluster", "membership", "cql")


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the old revision, in a directory of their own."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("NO UPGRADE WAS TRIED: it takes git and this repository's history")
    revision = os.environ.get("MINUTEHAND_UPGRADE_FROM") or before_the_last_change()
    packed = subprocess.run(["git", "archive", "--format=tar", revision], cwd=ROOT, capture_output=True)
    if packed.returncode != 0:
        pytest.skip(f"NO UPGRADE WAS TRIED: there is no revision {revision} here ({packed.stderr.decode().strip()})")
    tree = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(tree, filter="data")
    (tree / "minutehand" / "version.py").write_text(f'VERSION = "{VERSION}{MARK}"\n', encoding="utf-8")
    return tree


@pytest.fixture
def both(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(cassandra, tmp_path, migrated=False) as built:
        yield built


def test_old_and_new_programs_work_together(both: Deployment, old_tree: Path, show: Callable[..., None]) -> None:
    for room in ROOMS:
        assert file_of(room, old_tree).is_relative_to(old_tree)
    began = time.monotonic()
    factor = {"MINUTEHAND_CASSANDRA_REPLICATION_FACTOR": str(both.storage.replication_factor)}
    migration = both.start("migrate", ["migrate"], variables=factor, tree=old_tree)
    await_end(both, "migrate")
    assert migration.exit_code() == 0, migration.last_words()

    old_api = both.start("api", ["api"], tree=old_tree)
    both.start_node("old", ready=False, tree=old_tree)
    old_api.await_ready(f"{both.api_url}/readyz")
    key = both.register(CLIENT, poller_quota=QUOTA)
    put_at = put_crons(both, key)
    both.await_owners({"old"}, pollers=QUOTA)

    (new_port,) = free_ports(1)
    new_url = f"http://127.0.0.1:{new_port}"
    with kept_connections(both, CLIENT, key, connections=6) as by_old:
        time.sleep(PHASE_SECONDS)
        alone = both.receiver.count()
        both.migrate()
        both.start_node("new", ready=False)
        new_api = both.start("api-new", ["api", "--port", str(new_port)])
        new_api.await_ready(f"{new_url}/readyz")
        both.await_owners({"old", "new"}, pollers=QUOTA)
        assert versions(both) == {"old": VERSION + MARK, "new": VERSION}
        with kept_connections(both, CLIENT, key, connections=6, port=new_port) as by_new:
            # The crons' first fires are due in the first whole minute after they were put.
            first_minute = (int(put_at) // 60 + 1) * 60
            time.sleep(max(first_minute - time.time(), PHASE_SECONDS) + PHASE_SECONDS)
            together = both.receiver.count() - alone
            end(both, "old")
            time.sleep(PHASE_SECONDS)
    end(both, "api")
    both.api_url = new_url
    both.await_owners({"new"}, pollers=QUOTA)

    fires = expected_fires(both, key, put_at, until=time.time() - 1)
    wanted = {*by_old.acknowledged.values(), *by_new.acknowledged.values(), *fires}
    calls = await_calls(both, wanted)
    repeated = unmarked_repetitions(calls)
    show(
        f"by the old API: {by_old}",
        f"by the new API: {by_new}",
        f"{alone} calls by the old node alone, {together} by both, {len(calls)} in all; {len(fires)} fires of "
        f"{CRONS} crons; at most {latest(calls, by_old, by_new):.3f} s late; {time.monotonic() - began:.0f} s",
    )
    assert alone > 0
    assert together > 0
    assert fires
    assert wanted - {call["id"] for call in calls} == set()
    assert repeated == []
    for load in (by_old, by_new):
        assert load.lost == []
        assert load.statuses.keys() == {201}


def before_the_last_change() -> str:
    """The commit before the last one that changed a program; the last commit may have changed only a page or a test."""
    command = ["git", "rev-list", "--max-count=1", "HEAD", "--", *ROOMS]
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return f"{last}~1"


def file_of(package: str, tree: Path) -> Path:
    """The path from which a program that runs in `tree` imports a package."""
    told = subprocess.run(
        [sys.executable, "-c", f"import {package}; print({package}.__file__)"],
        cwd=tree,
        env=clean_environment(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(told.stdout.strip())


def versions(cluster: Deployment) -> dict[str, str]:
    with cluster.admin() as api:
        return {node.node_id: node.version for node in api.cluster().nodes if node.state == "live"}


def put_crons(cluster: Deployment, key: str) -> float:
    """Put crons through the old API; returns when the last existed, Unix seconds."""
    callback = Callback(url=cluster.receiver.url)
    # A request may get no answer in time from a keyspace that is seconds old; it is repeated, as users do.
    with Minutehand(cluster.api_url, key) as api:
        for number in range(CRONS):
            api.client(CLIENT).crons.put(
                f"cron-{number}", callback, expression="* * * * *", timezone="UTC", spread_seconds=SPREAD_SECONDS
            )
    return time.time()


def expected_fires(cluster: Deployment, key: str, put_at: float, *, until: float) -> set[str]:
    """Ids of all fires in the interval by the crons' rules. Each must be among the cron's runs."""
    start, end = datetime.fromtimestamp(put_at - 60, UTC), datetime.fromtimestamp(until + 60, UTC)
    found: set[str] = set()
    with cluster.client(CLIENT, key) as client:
        for number in range(CRONS):
            cron_id = f"cron-{number}"
            offset = spread_offset_ms(ClientId(CLIENT), CronId(cron_id), SPREAD_SECONDS)
            runs = {
                round(run.nominal_due.timestamp() * 1000): run
                for run in client.crons.runs(cron_id, start=start, end=end)
            }
            minute = int(put_at * 1000) // MINUTE_MS + 1
            while (nominal := minute * MINUTE_MS) + offset <= until * 1000:
                schedule_id = runs[nominal].schedule_id
                assert schedule_id is not None, f"{cron_id} at {nominal} was never placed"
                found.add(schedule_id)
                minute += 1
    return found


def await_calls(cluster: Deployment, wanted: set[str]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + CALLED_WITHIN_SECONDS
    while True:
        calls = cluster.receiver.calls()
        if not wanted - {call["id"] for call in calls} or time.monotonic() > deadline:
            return calls
        time.sleep(0.5)


def unmarked_repetitions(calls: list[dict[str, Any]]) -> list[str]:
    """Schedules that were called again without the header that says so."""
    unmarked = Counter(call["id"] for call in calls if not call["redelivery"])
    return [schedule_id for schedule_id, times in unmarked.items() if times > 1]


def latest(calls: list[dict[str, Any]], *loads: Kept) -> float:
    """The greatest lateness of any schedule's first call, in seconds."""
    acknowledged = {one for load in loads for one in load.acknowledged.values()}
    late: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        if call["id"] in acknowledged:
            late[call["id"]].append(call["arrived"] - call["due"])
    return max(min(one) for one in late.values())


def end(cluster: Deployment, name: str) -> None:
    cluster.programs[name].send(signal.SIGTERM)
    await_end(cluster, name)
    program = cluster.programs.pop(name)
    assert program.exit_code() == 0, program.last_words()
    program.stop()


def await_end(cluster: Deployment, name: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while cluster.programs[name].exit_code() is None:
        assert time.monotonic() < deadline, cluster.programs[name].last_words()
        time.sleep(0.05)
