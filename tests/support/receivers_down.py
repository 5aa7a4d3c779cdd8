"""One client's receiver is down, everything restarts amid its retries, and another client must not suffer.

Shared by the acceptance test of this and `make storm`: creates the schedules, restarts the deployment, and reads the
nodes' metrics and the receiver afterwards.
"""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx
import msgspec

from minutehand.client import Callback, MinutehandClientError, NewSchedule, Retry
from tests.bench.cpu import cpu_seconds
from tests.support.cassandra import EmbeddedCluster
from tests.support.processes import Deployment

STRICKEN, QUIET = "stricken", "quiet"
NODES = ("one", "two")
BATCH = 1_000
RETRY = Retry(max_attempts=20)
CARRYING = ("schedules.update", "schedules.update_any_version")
"""Statements that begin an external update, which carries an outcome to its original."""
BEAT = "nodes.write"


@dataclass(frozen=True, slots=True)
class Sample:
    """The nodes' counters summed at one instant; they count from the start of each process."""

    at: float
    edits: float
    edits_failed: float
    beats: float
    beats_failed: float
    trusted: int
    """Nodes that may make calls."""


@dataclass(slots=True)
class Watched:
    """Observations after a restart."""

    samples: list[Sample] = field(default_factory=list)
    api_refusals: int = 0
    cassandra_cores: float = 0.0
    lateness_s: list[float] = field(default_factory=list)
    """Lateness of the quiet client's calls, by due; missing ones count until now."""
    missing: int = 0

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    def longest_distrust(self, nodes: int) -> float:
        """The longest time in seconds without trust on every node, counted after all were trusted once."""
        longest = stretch = 0.0
        before: Sample | None = None
        for sample in self.samples:
            if before is not None:
                stretch = 0.0 if sample.trusted == nodes else stretch + sample.at - before.at
                longest = max(longest, stretch)
            if sample.trusted == nodes or before is not None:
                before = sample
        return longest

    def table(self) -> list[str]:
        """A table for readers."""
        return [
            f"{sample.at:6.1f} s  edits {sample.edits:7.0f} ({sample.edits_failed:.0f} unanswered)  "
            f"beats {sample.beats:4.0f} ({sample.beats_failed:.0f} unanswered)  trusted {sample.trusted}"
            for sample in self.samples
        ]


def create_doomed(cluster: Deployment, key: str, *, rows: int, ordering_key: str | None, start: datetime) -> None:
    """Create schedules for one minute, from `start` on, whose receiver answers 500; all with one ordering key, or
    none.
    """
    callback = Callback(url=f"{cluster.receiver.url}/down", json={"for": "nobody"})
    step = timedelta(seconds=50) / rows
    schedules = [
        NewSchedule(
            callback=callback,
            due=start + step * number,
            retry=RETRY,
            ordering_key=msgspec.UNSET if ordering_key is None else ordering_key,
        )
        for number in range(rows)
    ]
    with cluster.client(STRICKEN, key) as client:
        for begin in range(0, rows, BATCH):
            for item in client.schedules.create_batch(schedules[begin : begin + BATCH]):
                assert item.schedule is not None, item.problem


def next_minute(*, at_least_seconds: float) -> datetime:
    soonest = datetime.now(UTC) + timedelta(seconds=at_least_seconds)
    return soonest.replace(second=0, microsecond=0) + timedelta(minutes=1)


def stop_all(cluster: Deployment, nodes: EmbeddedCluster, how: signal.Signals) -> None:
    """Stop nodes, API and Cassandra: all at once by SIGKILL, or one after the other in good order."""
    programs = [cluster.programs.pop(name) for name in [*NODES, "api"]]
    for program in programs:
        program.send(how)
    for program in programs:
        program.stop()
    if how == signal.SIGKILL:
        nodes.kill(0)
    else:
        nodes.stop(0)


def start_all(cluster: Deployment, nodes: EmbeddedCluster | None) -> None:
    """Start Cassandra cold (None: it runs), then everything else at once. Returns when the API and every node are
    ready; raises ProgramFailed if that takes longer than a minute.
    """
    if nodes is not None:
        nodes.restart(0)
    started = [cluster.start_node(name, ready=False) for name in NODES]
    cluster.start_api()
    for name, node in zip(NODES, started, strict=True):
        node.await_ready(f"http://127.0.0.1:{cluster.ops_port(name)}/readyz")


def watch(
    cluster: Deployment,
    quiet_key: str,
    *,
    seconds: float,
    every: float = 5.0,
    cassandra_pid: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Watched:
    """Create a second client's calls, one a second, each due a few seconds later, and observe them."""
    watched = Watched()
    callback = Callback(url=cluster.receiver.url, json={"for": QUIET})
    asked: dict[str, datetime] = {}
    begun = next_sample = time.monotonic()
    cpu_before = None if cassandra_pid is None else cpu_seconds(cassandra_pid)
    with cluster.client(QUIET, quiet_key) as client:
        while (now := time.monotonic()) < begun + seconds:
            due = datetime.now(UTC) + timedelta(seconds=3)
            try:
                asked[client.schedules.create(callback, due=due).schedule_id] = due
            except MinutehandClientError:
                watched.api_refusals += 1
            if now >= next_sample:
                next_sample += every
                sample = read_sample(cluster, at=now - begun)
                watched.samples.append(sample)
                say(watched.table()[-1])
            time.sleep(max(now + 1.0 - time.monotonic(), 0))
    watched.samples.append(read_sample(cluster, at=time.monotonic() - begun))
    if cassandra_pid is not None and cpu_before is not None:
        used = (cpu_seconds(cassandra_pid) or cpu_before) - cpu_before
        watched.cassandra_cores = used / (time.monotonic() - begun)
    time.sleep(5.0)
    arrived: dict[str, float] = {}
    for call in cluster.receiver.calls():
        if call["id"] in asked:
            arrived.setdefault(call["id"], call["arrived"])
    watched.missing = len(asked.keys() - arrived.keys())
    watched.lateness_s = [arrived.get(one, time.time()) - due.timestamp() for one, due in asked.items()]
    return watched


def read_sample(cluster: Deployment, *, at: float) -> Sample:
    """Sample the nodes; one that does not answer counts as a node without trust."""
    seen: list[dict[str, float]] = []
    for name in NODES:
        try:
            seen.append(cluster.metrics(name))
        except (httpx.HTTPError, OSError):
            continue
    return Sample(
        at=round(at, 1),
        edits=_asked(seen, CARRYING),
        edits_failed=_failed(seen, CARRYING),
        beats=_asked(seen, [BEAT]),
        beats_failed=_failed(seen, [BEAT]),
        trusted=sum(metrics.get("minutehand_trusted", 0) == 1 for metrics in seen),
    )


def _asked(seen: Sequence[dict[str, float]], statements: Sequence[str]) -> float:
    name = "minutehand_storage_request_duration_seconds_count"
    return sum(metrics.get(f'{name}{{statement="{one}"}}', 0.0) for metrics in seen for one in statements)


def _failed(seen: Sequence[dict[str, float]], statements: Sequence[str]) -> float:
    return sum(
        value
        for metrics in seen
        for name, value in metrics.items()
        if name.startswith("minutehand_storage_errors_total{")
        and any(f'statement="{one}"' in name for one in statements)
    )
