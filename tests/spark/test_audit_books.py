"""The audit of real rows: it finds no fault in what the system did, and every fault that was planted."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from cql.storage import Storage, open_storage
from minutehand.client import Callback, ClientScope, Event, Retry, Schedule
from scheduler_service.domain.audits import EVERY_CLIENT, standing_findings
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    PollerId,
    ScheduleId,
    UnixMillis,
    compose_schedule_id,
    due_of,
    minute_of,
    minute_start,
    partition_of,
)
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from spark.io.tables import Tables
from spark.jobs.audit_books import AUDIT_BOOKS
from spark.jobs.job import Context, JobRefused, Report
from tests.spark.jobs import await_state
from tests.support.api import RecordedHints
from tests.support.cassandra import session_of
from tests.support.processes import Deployment

SHOP = ClientId("shop")
POLLERS = 2
T = TypeVar("T")


class Shop:
    """One client of a deployment, and audits of it over the hours around now."""

    def __init__(self, spark: SparkSession, cluster: Deployment) -> None:
        self.cluster = cluster
        self.now = datetime.now(UTC)
        self._spark = spark
        self.said: list[str] = []

    @property
    def window(self) -> dict[str, datetime]:
        hour = self.now.replace(minute=0, second=0, microsecond=0)
        return {"start": hour - timedelta(hours=1), "end": hour + timedelta(hours=2)}

    def audit(self, **other: Any) -> Report:
        arguments = {"clients": [SHOP], "output": None, "repair": False, "again_after": 0.0, **self.window, **other}
        storage = self.cluster.storage
        tables = Tables(self._spark, storage.keyspace)
        context = Context(
            session=self._spark, tables=tables, storage=storage, now=datetime.now(UTC), say=self.said.append
        )
        return AUDIT_BOOKS.run(context, Namespace(**arguments))

    def store(self, act: Callable[[Storage], Awaitable[T]]) -> T:
        async def acted() -> T:
            storage = await open_storage(self.cluster.storage)
            try:
                return await act(storage)
            finally:
                await storage.close()

        return asyncio.run(acted())

    def row(self, minutes_ago: int, *, tail: int, poller: int = 0, **other: Any) -> Definition:
        due = UnixMillis(round(self.now.timestamp() * 1000) - minutes_ago * 60_000)
        return Definition(
            **{
                "client_id": SHOP,
                "poller_id": PollerId(poller),
                "due": due,
                "schedule_id": compose_schedule_id(due=due, poller_id=poller, tail=tail),
                "method": "POST",
                "url": self.cluster.receiver.url,
                "headers": "[]",
                "body": b"",
                "options": "{}",
                "created_at": UnixMillis(due - 1000),
                **other,
            }
        )

    def cql(self, statement: str, *parameters: object) -> list[Any]:
        storage = self.cluster.storage
        with session_of(storage.contact_points[0], storage.port) as session:
            session.set_keyspace(storage.keyspace)
            return list(session.execute(statement, parameters))

    def await_settled(self, minute: Minute) -> None:
        """Wait until the minute of both pollers is over, swept and its balance written."""
        deadline = time.monotonic() + 120
        with self.cluster.admin() as api:
            while any(one.watermark.timestamp() // 60 <= minute for one in api.client(SHOP).pollers()):
                assert time.monotonic() < deadline, "the minute was not settled"
                time.sleep(0.5)


KEY = "client_id = %s AND poller_id = %s AND minute = %s AND due = %s AND schedule_id = %s"
OUTCOME = (
    "state, attempts, first_attempt_at, next_attempt_at, finished_at, last_status, last_error, reason, fired_by, "
    "fired_epoch"
)


def key_of(row: Definition) -> tuple[object, ...]:
    return (row.client_id, row.poller_id, minute_start(row.partition.minute), row.due, row.schedule_id)


def findings(report: Report) -> dict[str, int]:
    (shop,) = report["clients"]
    assert sum(shop["findings"].values()) == len(shop["shown"])
    return dict(shop["findings"])


def test_an_audit_finds_what_was_done_to_the_rows_and_nothing_else(
    spark: SparkSession, cluster: Deployment, tmp_path: Path
) -> None:
    cluster.start_api()
    cluster.start_node("n1")
    shop = Shop(spark, cluster)
    key = cluster.register(SHOP, poller_quota=POLLERS, event_feed=True)
    cluster.await_owners({"n1"}, pollers=POLLERS)
    with cluster.client(SHOP, key) as client:
        called = live_a_little(shop, client)
        clean = shop.audit()
        assert findings(clean) == {}
        assert not [line for line in shop.said if line.startswith("Told")]
        (told,) = clean["clients"]
        assert told["counts"]["delivered"] >= len(called) + 2
        assert told["counts"]["cancelled"] == 1
        assert told["counts"]["accepted"] == sum(told["counts"].values()) - told["counts"]["accepted"]

        cluster.stop_one("n1")
        wanted = damage(shop, called)
        output = tmp_path / "findings"
        damaged = shop.audit(output=str(output), repair=True)
        assert findings(damaged) == dict.fromkeys(wanted, 1)
        assert damaged["clients"][0]["repaired"] == {"requeued": 1, "completed": 1}
        shown = {one["kind"]: one["schedule_id"] for one in damaged["clients"][0]["shown"]}
        assert shown == wanted
        rows = spark.read.parquet(str(output)).select("kind", "schedule_id").collect()
        assert {row.kind: row.schedule_id for row in rows} == wanted
        assert len(rows) == len(wanted)
        with pytest.raises(JobRefused, match="exists"):
            shop.audit(output=str(output))

        mended = {"stranded", "pointer-without-retry-row"}
        assert findings(shop.audit()) == dict.fromkeys(wanted.keys() - mended, 1)

        cluster.start_node("n1")
        await_called(cluster, {wanted[kind] for kind in mended})
        audits = list(client.audits(page_size=2))
        assert [audit.findings for audit in audits] == [
            dict.fromkeys(wanted.keys() - mended, 1),
            dict.fromkeys(wanted, 1),
            {},
        ]
        assert audits[1].repaired == {"requeued": 1, "completed": 1}
        assert {one.kind: one.schedule_id for one in audits[1].shown} == wanted
        assert (audits[0].start, audits[0].end) == tuple(shop.window.values())

        event = await_unbalanced(client)
        assert event.data["findings"] == dict.fromkeys(wanted, 1)
        assert event.data["audit_id"] == damaged["audit_id"]
        assert (event.data["from"], event.data["to"]) == (damaged["from"], damaged["to"])

        assert shop.store(lambda storage: storage.audits.read_page(EVERY_CLIENT)) == [], "no run was over all clients"
        everybody = shop.audit(clients=[])
        (stored,) = shop.store(lambda storage: storage.audits.read_page(EVERY_CLIENT))
        assert str(stored.audit_id) == everybody["audit_id"]
        assert standing_findings([stored]) == sum(sum(one["findings"].values()) for one in everybody["clients"]) > 0


def await_unbalanced(client: ClientScope) -> Event:
    """The event of the findings: the first audit tells them, and none of those that find some of them again."""
    deadline = time.monotonic() + 120
    while True:
        feed = client.events(after="earliest", follow=False)
        if told := [event for event in feed if event.type == "books.unbalanced"]:
            (event,) = told
            return event
        assert time.monotonic() < deadline, "the findings were not told"
        time.sleep(0.5)


def live_a_little(shop: Shop, client: ClientScope) -> list[Schedule]:
    """Calls, retries, late creates, a cancel, a redelivery and a cron; all of it settled, with its books written."""
    url = shop.cluster.receiver.url
    due = datetime.now(UTC) + timedelta(seconds=2)
    callbacks = [Callback(url=url)] * 4 + [Callback(url=f"{url}/flaky")] * 2
    retry = Retry(base_seconds=1)
    called = [client.schedules.create(callback, due=due, retry=retry) for callback in callbacks]
    client.crons.put("minutely", expression="* * * * *", timezone="UTC", callback=Callback(url=url))
    later = client.schedules.create(Callback(url=url), due=shop.now + timedelta(minutes=50))
    client.schedules.cancel(later.schedule_id)

    async def place_late(storage: Storage) -> None:
        writer = ScheduleWriter(
            schedules=storage.schedules,
            keys=storage.schedule_keys,
            leases=storage.leases,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            hints=RecordedHints(),
        )
        assert await writer.many([shop.row(10, tail=tail) for tail in (1, 2)]) == [None, None]

    shop.store(place_late)
    await_called(shop.cluster, {one.schedule_id for one in called})
    again = called.pop(0)
    await_state(client, again.schedule_id, "delivered")
    client.schedules.redeliver(again.schedule_id)
    shop.await_settled(minute_of(round(time.time() * 1000)))
    await_state(client, str(shop.row(10, tail=1).schedule_id), "delivered")
    for _ in client.balance(start=shop.window["start"], end=shop.window["end"]):
        """A read stores its counts."""
    return called


def damage(shop: Shop, called: list[Schedule]) -> dict[str, str | None]:
    """Plant one fault of each kind; returns the findings expected, and of which schedule."""
    lost = called[0]
    due = round(lost.due.timestamp() * 1000)
    where = (SHOP, lost.poller_id, minute_start(minute_of(due)), due, UUID(lost.schedule_id))
    shop.cql(f"DELETE {OUTCOME} FROM schedules WHERE {KEY}", *where)

    partition = shop.row(10, tail=1).partition
    shop.cql(
        "UPDATE minute_balance SET delivered = 7 WHERE client_id = %s AND hour = %s AND minute = %s AND poller_id = %s",
        *(SHOP, partition.minute // 60 * 3_600_000, minute_start(partition.minute), partition.poller_id),
    )

    stranded, bare, pointer = shop.row(20, tail=1), shop.row(25, tail=1), shop.row(40, tail=1)
    misplaced = shop.row(30, tail=1, schedule_id=shop.row(30, tail=1, poller=1).schedule_id)
    month = round(datetime(shop.now.year, shop.now.month, 1, tzinfo=UTC).timestamp() * 1000)
    runs = "SELECT schedule_id FROM cron_runs WHERE client_id = %s AND cron_id = %s AND month = %s"
    child = ScheduleId(shop.cql(runs, SHOP, "minutely", month)[-1].schedule_id)
    home = partition_of(SHOP, child)
    doubled = compose_schedule_id(due=due_of(child), poller_id=home.poller_id, tail=(1 << 58) - 1)

    async def plant(storage: Storage) -> None:
        assert await storage.schedules.insert_many([stranded, bare, pointer, misplaced]) == [None] * 4
        rows = (await storage.schedules.read_page(home)).rows
        original = next(row for row in rows if row.schedule_id == child)
        twin = shop.row(
            0,
            tail=0,
            poller_id=home.poller_id,
            due=original.due,
            schedule_id=doubled,
            cron_id=original.cron_id,
            nominal_due=original.nominal_due,
        )
        await storage.schedules.insert(twin)

    shop.store(plant)
    shop.cql(
        "DELETE FROM occupied_minutes WHERE client_id = %s AND hour = %s AND minute = %s AND poller_id = %s",
        *(SHOP, bare.partition.minute // 60 * 3_600_000, minute_start(bare.partition.minute), bare.poller_id),
    )
    shop.cql(
        f"UPDATE schedules SET state = 'retrying', attempts = 1, next_attempt_at = %s WHERE {KEY}",
        pointer.due + 60_000,
        *key_of(pointer),
    )
    shop.cql("UPDATE crons SET wake_at = %s WHERE client_id = %s AND cron_id = %s", 0, SHOP, "minutely")
    return {
        "lost-outcome": lost.schedule_id,
        "wrong-balance": None,
        "stranded": str(stranded.schedule_id),
        "unindexed": None,
        "misplaced": str(misplaced.schedule_id),
        "pointer-without-retry-row": str(pointer.schedule_id),
        "doubled-fire": str(doubled),
        "overdue-cron": None,
    }


def await_called(cluster: Deployment, ids: set[Any]) -> None:
    deadline = time.monotonic() + 60
    while missing := ids - {call["id"] for call in cluster.receiver.calls()}:
        assert time.monotonic() < deadline, f"{missing} were not called"
        time.sleep(0.3)


def test_what_can_not_be_audited_is_refused(spark: SparkSession, cluster: Deployment) -> None:
    shop = Shop(spark, cluster)
    with pytest.raises(JobRefused, match="there is no client shop"):
        shop.audit()
    with pytest.raises(JobRefused, match="there are no clients yet"):
        shop.audit(clients=[])
    with pytest.raises(JobRefused, match="a window ends after it starts"):
        shop.audit(end=shop.window["start"])
