"""An API of several processes: one port, the same answers from each process, and no process left after the end."""

import json
import signal
import time
from collections.abc import Callable

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from minutehand.client import Callback
from minutehand.local.machine import free_ports
from minutehand.processes.identity import ProcessIdentity, identify, is_alive, send_signal
from minutehand.processes.programs import Program
from tests.support.processes import Deployment

NAMES = ("api-0", "api-1")
CREATES = 24
CREATE = {"method": "POST", "route": "/v1/clients/{client_id}/schedules"}


def test_processes_share_a_port_and_end_together(cluster: Deployment) -> None:
    (health_port,) = free_ports(1)
    parent = cluster.start_api(processes=len(NAMES), variables={"MINUTEHAND_HEALTH_PORT": str(health_port)})
    cluster.start_node("one")
    key = cluster.register("shop", poller_quota=4)
    await_until(lambda: len(said(parent, "api-listening")) == len(NAMES))

    # Each request takes a new connection, so that both processes answer; the other process shows what one has created.
    made = []
    for number in range(CREATES):
        with cluster.client("shop", key) as shop:
            made.append(
                shop.schedules.create(Callback(url=cluster.receiver.url), delay_seconds=3600, label=str(number))
            )
    for schedule in made:
        with cluster.client("shop", key) as shop:
            assert shop.schedules.get(schedule.schedule_id).label == schedule.label
    await_until(lambda: sum(created(cluster).values()) == CREATES)
    assert set(created(cluster)) == set(NAMES), "both have answered some"
    assert durations(cluster) == CREATES

    await_until(lambda: health(health_port, "/readyz") == (200, []))
    first, second = (process_of(parent, name) for name in NAMES)
    assert send_signal(first, signal.SIGKILL)
    await_until(lambda: health(health_port, "/readyz") == (503, ["process-down"]))
    assert health(health_port, "/livez") == (200, [])
    await_until(lambda: len(said(parent, "api-listening")) == len(NAMES) + 1)
    # The new process listens at once, and is ready when it has compared its clock with the node's.
    await_until(lambda: httpx.get(f"{cluster.api_url}/readyz", trust_env=False).status_code == 200)
    first = process_of(parent, "api-0")
    await_until(lambda: health(health_port, "/readyz") == (200, []))

    parent.stop(30.0)
    assert not any(map(is_alive, (first, second)))


def health(port: int, path: str) -> tuple[int, list[str]]:
    """The command's answer about all its processes: the status, and the reason if it is not 200."""
    answer = httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
    return answer.status_code, [one["reason"] for one in answer.json()["reasons"]]


def created(cluster: Deployment) -> dict[str, float]:
    """How many creates each process has answered, as the one that accepts the next connection shows them."""
    wanted = {**CREATE, "status": "201"}.items()
    return {
        one.labels["process"]: one.value
        for one in samples(cluster)
        if one.name == "minutehand_api_requests_total" and wanted <= one.labels.items()
    }


def durations(cluster: Deployment) -> float:
    """The number of creates in the histograms of all processes."""
    wanted = {**CREATE, "le": "+Inf"}.items()
    name = "minutehand_api_request_duration_seconds_bucket"
    return sum(one.value for one in samples(cluster) if one.name == name and wanted <= one.labels.items())


def samples(cluster: Deployment) -> list[Sample]:
    page = httpx.get(f"{cluster.api_url}/metrics", trust_env=False).text
    return [one for family in text_string_to_metric_families(page) for one in family.samples]


def said(parent: Program, action: str) -> list[dict[str, object]]:
    lines = parent.log_file.read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["action"] == action]


def process_of(parent: Program, name: str) -> ProcessIdentity:
    """The running process that the parent started last under that name."""
    found = identify(int(str([line["pid"] for line in said(parent, "process-started") if line["process"] == name][-1])))
    assert found is not None
    return found


def await_until(reached: Callable[[], bool], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.2)
