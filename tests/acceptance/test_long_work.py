"""Calls that receivers take by 202 and acknowledge later, with real processes that are killed meanwhile."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from minutehand.client import Ack, Callback, Retry
from minutehand.local.machine import free_ports
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment
from tests.support.recording_receiver import Answer, RecordingReceiver, Request, listening

CLIENT = "shop"
EXAMPLE = Path(__file__).parents[2] / "examples" / "receivers" / "working_receiver.py"
LONG_SECONDS = 8.0
TAKEN_OVER_SECONDS = 60.0
"""How long it takes at most on a busy machine until a killed node's pollers are another's, and its past is read."""


class Worker(RecordingReceiver):
    """It takes every call by 202."""

    def answer(self, request: Request) -> Answer:
        return Answer(202)


class Slow(RecordingReceiver):
    def answer(self, request: Request) -> Answer:
        return Answer(204, after_seconds=LONG_SECONDS)


def create(cluster: Deployment, key: str, url: str, *, within_seconds: float) -> str:
    body = {"delay_seconds": 1, "callback": {"url": url, "ack": {"within_seconds": within_seconds}}}
    made = httpx.post(
        f"{cluster.api_url}/v1/clients/{CLIENT}/schedules", headers=_with(key), json=body, trust_env=False, timeout=30
    )
    assert made.status_code == 201, made.text
    return str(made.json()["schedule_id"])


def show(cluster: Deployment, key: str, schedule_id: str, verb: str = "") -> Any:
    url = f"{cluster.api_url}/v1/clients/{CLIENT}/schedules/{schedule_id}{verb}"
    return httpx.get(url, headers=_with(key), trust_env=False, timeout=30).json()


def await_state(cluster: Deployment, key: str, schedule_id: str, state: str, *, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while (found := show(cluster, key, schedule_id))["state"] != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def say(call: Request, **word: Any) -> httpx.Response:
    return httpx.post(call.headers["minutehand-ack-url"], json=word, trust_env=False, timeout=30)


def _with(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_word_counts_and_a_deadline_holds_whichever_node_is_killed(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster, listening(Worker(), "/work") as taken:
        offered = {"MINUTEHAND_ACKNOWLEDGEMENTS_BASE_URL": cluster.api_url}
        cluster.start_api(variables=offered)
        first = cluster.start_node("one", variables=offered)
        key = cluster.register(CLIENT, poller_quota=1)
        finished = create(cluster, key, taken.url, within_seconds=300)
        silent = create(cluster, key, taken.url, within_seconds=15)
        call = taken.awaited(finished, 1, seconds=30)
        taken.awaited(silent, 1, seconds=30)
        for schedule_id in (finished, silent):
            await_state(cluster, key, schedule_id, "awaiting", seconds=20)
        first.kill()
        answer = say(call, result="done", data={"rows": 3})
        assert answer.status_code == 200, answer.text
        cluster.start_node("two", variables=offered)
        await_state(cluster, key, finished, "delivered", seconds=TAKEN_OVER_SECONDS)
        again = taken.awaited(silent, 2, seconds=TAKEN_OVER_SECONDS)
        assert again.headers["minutehand-attempt"] == "2"
        assert int(again.headers["minutehand-fence"]) > int(call.headers["minutehand-fence"])
        stale = say(taken.of(silent)[0], result="done")
        assert stale.status_code == 409, stale.text
        await_state(cluster, key, silent, "awaiting", seconds=20)
        assert say(again, result="done").status_code == 200
        await_state(cluster, key, silent, "delivered", seconds=20)
        assert len(taken.of(finished)) == 1
        [attempt] = show(cluster, key, finished, "/attempts")["items"]
        assert attempt["acknowledgement"]["data"] == {"rows": 3}


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def example(secret: str) -> Iterator[str]:
    (port,) = free_ports(1)
    environment = {**os.environ, "SIGNING_SECRET": secret, "PYTHONPATH": str(EXAMPLE.parents[2])}
    process = subprocess.Popen([sys.executable, EXAMPLE, str(port)], env=environment)
    try:
        deadline = time.monotonic() + 30
        while not _listens(port):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/hooks/render"
    finally:
        process.kill()
        process.wait()


def test_the_example_says_done_and_failed_by_the_sdk(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster:
        offered = {"MINUTEHAND_ACKNOWLEDGEMENTS_BASE_URL": cluster.api_url}
        cluster.start_api(variables=offered)
        cluster.start_node("one", variables=offered)
        key = cluster.register(CLIENT, poller_quota=1)
        with cluster.client(CLIENT, cluster.admin_key) as admin:
            secret = admin.signing_secrets.create().secret
        ack = Ack(within_seconds=120)
        with example(secret) as url, cluster.client(CLIENT, key) as client:
            good, bad = (
                client.schedules.create(
                    Callback(url=url, json={"frames": frames}, ack=ack), delay_seconds=2, retry=Retry(max_attempts=1)
                ).schedule_id
                for frames in (1_500, -1)
            )
            await_state(cluster, key, good, "delivered", seconds=40)
            await_state(cluster, key, bad, "failed", seconds=40)
            [done], [failed] = client.schedules.attempts(good), client.schedules.attempts(bad)
            assert done.acknowledgement is not None
            assert (done.acknowledgement.result, done.acknowledgement.data) == ("done", {"frames": 1_500})
            assert failed.acknowledgement is not None
            assert (failed.outcome, failed.acknowledgement.reason) == ("failed", "there are no frames")


def test_a_long_call_is_awaited_and_called_again_when_its_node_is_killed(
    cassandra: SuiteCassandra, tmp_path: Path
) -> None:
    with deployment(cassandra, tmp_path) as cluster, listening(Slow(), "/slow") as taken:
        bounds = {
            "MINUTEHAND_CLIENTS_TIMEOUT_SECONDS": "600",
            "MINUTEHAND_RECEIVERS_LONG_CALL_SECONDS": str(LONG_SECONDS / 4),
        }
        cluster.start_api(variables=bounds)
        first = cluster.start_node("one", variables=bounds)
        key = cluster.register(CLIENT, poller_quota=1)
        with cluster.client(CLIENT, key) as client:
            callback = Callback(url=taken.url)
            whole = client.schedules.create(callback, delay_seconds=1, timeout_seconds=600).schedule_id
            taken.awaited(whole, 1, seconds=30)
            await_state(cluster, key, whole, "delivered", seconds=LONG_SECONDS + 20)
            assert len(taken.of(whole)) == 1
            [attempt] = show(cluster, key, whole, "/attempts")["items"]
            assert attempt["duration_seconds"] >= LONG_SECONDS
            cut = client.schedules.create(callback, delay_seconds=1, timeout_seconds=600).schedule_id
            taken.awaited(cut, 1, seconds=30)
            first.kill()
            cluster.start_node("two", variables=bounds)
            again = taken.awaited(cut, 2, seconds=TAKEN_OVER_SECONDS)
            assert again.headers["minutehand-redelivery"] == "true"
            assert int(again.headers["minutehand-fence"]) > int(taken.of(cut)[0].headers["minutehand-fence"])
            await_state(cluster, key, cut, "delivered", seconds=LONG_SECONDS + 20)
            assert len(taken.of(cut)) == 2
