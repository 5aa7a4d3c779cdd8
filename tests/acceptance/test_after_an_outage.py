"""What is overdue after an outage of all nodes is shown, counted by a dry run, and skipped but for what came later."""

import time
from datetime import UTC, datetime, timedelta

from minutehand.client import Callback, NewSchedule
from tests.support.processes import Deployment

SHOP = "shop"


def test_what_is_overdue_is_shown_and_skipped(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("a")
    key = cluster.register(SHOP, poller_quota=2)
    due = datetime.now(UTC) + timedelta(seconds=15)
    late = due + timedelta(seconds=1)
    with cluster.client(SHOP, key) as shop, cluster.admin() as api:
        callback = Callback(url=cluster.receiver.url)
        shop.schedules.create_batch([NewSchedule(callback=callback, due=due) for _ in range(300)])
        kept = shop.schedules.create(callback, due=late + timedelta(seconds=1))
        cluster.programs.pop("a").kill()
        while datetime.now(UTC) < late + timedelta(seconds=2):
            time.sleep(0.2)
        overdue = shop.backlog()
        assert (overdue.overdue.rows, overdue.overdue.exact) == (301, True)
        assert overdue.overdue.oldest == due.replace(second=0, microsecond=0)
        assert api.backlog().clients in (0, 1), "pollers are behind after two minutes"

        api.clients.suspend(SHOP)
        cluster.start_node("a")
        window = {"start": due - timedelta(minutes=1), "end": late, "states": ["scheduled"]}
        report = shop.reconciliations.wait(shop.reconciliations.create("report", **window).reconciliation_id)
        assert (report.seen, sum(hour.schedules for hour in report.hours)) == ({"scheduled": 300}, 300)
        assert len(report.samples) == 10
        done = shop.reconciliations.wait(shop.reconciliations.create("skip", **window).reconciliation_id)
        assert done.outcomes == {"skipped": 300}
        one = shop.schedules.get(report.samples[0])
        assert (one.state, one.reason) == ("skipped", "overdue")
        assert not cluster.receiver.calls()

        api.clients.resume(SHOP)
        deadline = time.monotonic() + 30
        while shop.schedules.get(kept.schedule_id).state != "delivered" and time.monotonic() < deadline:
            time.sleep(0.2)
        assert shop.schedules.get(kept.schedule_id).state == "delivered"
        assert shop.backlog().overdue.rows == 0
