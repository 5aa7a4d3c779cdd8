"""Success deadlines with real processes: all nodes are killed over them, and one that is back tells."""

import json
import time
from pathlib import Path
from typing import Any

from minutehand.client import Callback, NewDestination, NewSchedule, NewSubscription
from minutehand.webhooks import verify
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import deployment
from tests.support.recording_receiver import Book, listening

CLIENT = "shop"


class Overdue(Book):
    @property
    def told(self) -> dict[str, dict[str, Any]]:
        """The data of the events by schedule."""
        return {event["schedule_id"]: event["data"] for one in self.notices for event in json.loads(one.body)["events"]}


def test_what_is_overdue_is_told_although_all_nodes_were_killed(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster, listening(Overdue()) as kept:
        cluster.start_api()
        cluster.start_node("a")
        key = cluster.register(CLIENT, poller_quota=2)
        with cluster.admin() as admin, cluster.client(CLIENT, key) as client:
            managing = admin.client(CLIENT)
            secret = managing.signing_secrets.create().secret
            managing.destinations.put("book", NewDestination(url=f"{kept.url}/notices"))
            managing.subscriptions.put("late", NewSubscription(destination="book", events=["schedule.overdue"]))
            time.sleep(5)  # until the node knows of it
            down, well = Callback(url=f"{kept.url}/calls/503"), Callback(url=f"{kept.url}/calls/200")
            in_time = client.schedules.create(well, delay_seconds=2, succeed_within_seconds=3)
            cancelled = client.schedules.create(well, delay_seconds=30, succeed_within_seconds=5)
            client.schedules.cancel(cancelled.schedule_id)
            items = [
                NewSchedule(callback=down, delay_seconds=2 + number / 10, succeed_within_seconds=6)
                for number in range(10)
            ]
            asked = [item.schedule for item in client.schedules.create_batch(items) if item.schedule is not None]
            missed = {one.schedule_id for one in asked}
            missed.add(client.schedules.create(well, delay_seconds=14, succeed_within_seconds=1).schedule_id)
            time.sleep(6)
            cluster.programs["a"].kill()
            time.sleep(25)
            assert not kept.told
            cluster.start_node("b")
            until = time.monotonic() + 120
            while missed - kept.told.keys():
                assert time.monotonic() < until, f"not told: {missed - kept.told.keys()}"
                time.sleep(0.5)
            time.sleep(10)
            story = client.schedules.explain(asked[0].schedule_id)
        assert kept.told.keys() == missed
        assert in_time.succeed_by is not None
        assert "succeed-by" in {step.step for step in story.steps}
        for data in kept.told.values():
            assert data["told_late_seconds"] > 10
        assert {kept.told[one.schedule_id]["last_status"] for one in asked} == {503}
    for one in kept.notices:
        verify(one.body, one.headers, secret, tolerance_seconds=600)
