"""Notices with real processes: whatever is killed, each end of a schedule is told, signed, under an id of its own."""

import json
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from minutehand.client import Callback, NewDestination, NewSubscription
from minutehand.client._sync.client_scope import ClientScope
from minutehand.webhooks import verify
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import deployment
from tests.support.recording_receiver import Answer, Book, Request, listening

CLIENT = "shop"
SCHEDULES = 150
SECONDS = 30


class Ends(Book):
    def __init__(self) -> None:
        super().__init__()
        self.refuse = 0
        """How many of the next notices are answered with 503."""

    def answer(self, request: Request) -> Answer:
        if self.refuse and not request.path.startswith("/calls/"):
            self.refuse -= 1
            answer = Answer(503)
        else:
            answer = super().answer(request)
        return replace(answer, body=b"as you like", headers=(("X-Said", "so"), ("Set-Cookie", "session=secret")))

    @property
    def own(self) -> dict[str, list[tuple[dict[str, Any], dict[str, str]]]]:
        """The notices of schedules' own, by schedule."""
        found: dict[str, list[tuple[dict[str, Any], dict[str, str]]]] = {}
        for one in self.notices:
            if "on" in (read := json.loads(one.body)):
                found.setdefault(read["events"][0]["schedule_id"], []).append((read, one.headers))
        return found

    @property
    def told(self) -> dict[str, set[str]]:
        """The types of events by schedule."""
        found: dict[str, set[str]] = {}
        for one in self.notices:
            if "subscription" in (read := json.loads(one.body)):
                for event in read["events"]:
                    found.setdefault(event["schedule_id"], set()).add(event["type"])
        return found


def await_notices(client: ClientScope, kept: Ends) -> None:
    """Return once the owners of all pollers know the subscription, as what they tell shows."""
    deadline = time.monotonic() + 60
    while True:
        probes = [client.schedules.create(Callback(url=f"{kept.url}/calls/200"), delay_seconds=0) for _ in range(16)]
        asked = {one.schedule_id for one in probes}
        until = time.monotonic() + 6
        while not asked <= kept.told.keys() and time.monotonic() < until:
            time.sleep(0.1)
        if asked <= kept.told.keys():
            return
        assert time.monotonic() < deadline, "the nodes do not know the subscription"


def await_told(kept: Ends, asked: Collection[str], *, part: float) -> None:
    """Return once this part of the schedules is told of."""
    deadline = time.monotonic() + 120
    while len(kept.told.keys() & set(asked)) < part * len(asked):
        assert time.monotonic() < deadline, "the ends are not told"
        time.sleep(0.1)


def test_every_end_is_told_through_kills_of_the_nodes(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster, listening(Ends()) as kept:
        cluster.start_api()
        for name in ("a", "b"):
            cluster.start_node(name)
        key = cluster.register(CLIENT, poller_quota=4)
        with cluster.admin() as admin, cluster.client(CLIENT, key) as client:
            managing = admin.client(CLIENT)
            secret = managing.signing_secrets.create().secret
            managing.destinations.put("book", NewDestination(url=f"{kept.url}/notices"))
            managing.subscriptions.put("all", NewSubscription(destination="book"))
            await_notices(client, kept)
            kept.refuse = 2
            asked = {
                client.schedules.create(
                    Callback(url=f"{kept.url}/calls/{410 if number % 5 == 0 else 200}"),
                    delay_seconds=3 + SECONDS * number / SCHEDULES,
                    on_success="book",
                    on_failure=f"{kept.url}/notices",
                ).schedule_id: "schedule.failed" if number % 5 == 0 else "schedule.delivered"
                for number in range(SCHEDULES)
            }
            cancelled = client.schedules.create(Callback(url=f"{kept.url}/calls/200"), delay_seconds=86_400).schedule_id
            client.schedules.cancel(cancelled)
            await_told(kept, asked, part=0.2)
            cluster.programs["a"].kill()
            await_told(kept, asked, part=0.4)
            cluster.start_node("c")
            cluster.programs["b"].kill()
            deadline = time.monotonic() + 180
            wanted = asked | {cancelled: "schedule.cancelled"}
            while missing := {one for one, kind in wanted.items() if kind not in kept.told.get(one, set())}:
                assert time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} ends were not told: {missing}"
                time.sleep(0.5)
            while silent := asked.keys() - kept.own.keys():
                assert time.monotonic() < deadline, f"{len(silent)} receivers of their own were not told: {silent}"
                time.sleep(0.5)
    for one in kept.notices:
        verify(one.body, one.headers, secret, tolerance_seconds=600)
        assert 0 < len(json.loads(one.body)["events"]) <= 100
    events = [event for one in kept.notices for event in json.loads(one.body)["events"]]
    told = {event["id"] for event in events if event["schedule_id"] in wanted}
    assert len(told) == len(wanted), "a repeat has the same id"
    known = 0
    for schedule_id, told_by in kept.own.items():
        assert len({headers["webhook-id"] for _, headers in told_by}) == 1, "a repeat has the same id"
        for body, _ in told_by:
            failed = asked[schedule_id] == "schedule.failed"
            assert body["on"] == ("failure" if failed else "success")
            assert body["answer_known"] is (body["answer"] is not None)
            if body["answer_known"]:
                known += 1
                said = dict(body["answer"]["headers"])
                assert (body["answer"]["status"], said["X-Said"]) == (410 if failed else 200, "so")
                assert (body["answer"]["body"], "Set-Cookie" in said) == ("as you like", False)
    assert known >= len(asked) / 2
