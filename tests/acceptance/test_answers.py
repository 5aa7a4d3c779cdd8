"""A receiver asks by its answers for no further attempt, another instant and the end of a cron, while nodes are
killed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minutehand.client import Callback, ClientScope, Schedule
from minutehand.local.machine import free_ports
from tests.support.processes import Deployment

CLIENT = "answered"
EXAMPLE = Path(__file__).parents[2] / "examples" / "receivers" / "answering_receiver.py"
WAIT_SECONDS = 25


@contextmanager
def receiver(secret: str, output: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, EXAMPLE, str(port)],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SIGNING_SECRET": secret, "PYTHONPATH": str(EXAMPLE.parents[2])},
        )
    try:
        yield f"http://127.0.0.1:{port}/hooks/expire"
    finally:
        process.kill()
        process.wait()


def awaited(look: Callable[[], object], *, seconds: float = 60.0, every: float = 0.2) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(every)


def _is(client: ClientScope, made: Schedule, state: str) -> bool:
    return client.schedules.get(made.schedule_id).state == state


def test_each_verb_is_obeyed_though_the_node_is_killed_in_between(cluster: Deployment, tmp_path: Path) -> None:
    cluster.start_api()
    node = cluster.start_node("one")
    key = cluster.register(CLIENT, poller_quota=1)
    with cluster.client(CLIENT, cluster.admin_key) as admin:
        secret = admin.signing_secrets.create().secret
        admin.change_settings({"receiver_verbs": ["not-again", "snooze", "stop-cron"]})
    output = tmp_path / "handled"
    with receiver(secret, output) as url, cluster.client(CLIENT, key) as client:
        tried = Callback(url=url, json={"wait_seconds": 9})
        # A client may make one trial call a second.
        awaited(lambda: client.trial_call(tried).verb == "snooze", every=1.1)
        cancelled = client.schedules.create(Callback(url=url, json={"cancelled": True}), delay_seconds=3)
        waits = client.schedules.create(Callback(url=url, json={"wait_seconds": WAIT_SECONDS}), delay_seconds=3)
        client.crons.put("job", Callback(url=url, json={"last": True}), expression="* * * * *", timezone="UTC")
        awaited(lambda: client.schedules.get(waits.schedule_id).reason == "snoozed")
        asked_at = client.schedules.get(waits.schedule_id).next_attempt_at
        assert asked_at is not None
        node.kill()
        cluster.start_node("two")
        awaited(lambda: _is(client, waits, "delivered"), seconds=WAIT_SECONDS + 60)
        first, second = client.schedules.attempts(waits.schedule_id)
        assert (first.outcome, first.verb, first.verb_ignored) == ("snoozed", "snooze", None)
        assert (second.outcome, second.attempt) == ("delivered", 2)
        assert second.started_at is not None
        assert second.started_at >= asked_at
        handled = [line.split()[1] for line in output.read_text().splitlines()]
        assert handled.count(str(waits.schedule_id)) == 1

        ended = client.schedules.get(cancelled.schedule_id)
        assert (ended.state, ended.reason, ended.last_status, ended.attempts) == ("failed", "not-again", 489, 1)

        awaited(lambda: client.crons.get("job").state == "paused", seconds=150)
        pause = client.crons.get("job").pause
        assert pause is not None
        assert (pause.note or "").startswith("stopped by the receiver of the run due ")
