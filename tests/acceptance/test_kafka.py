"""Calls to a topic of Kafka, with real processes: from the destination that is put to the record that is read."""

import time
from pathlib import Path
from typing import Any

import pytest

from minutehand.client import Callback, MinutehandApiError, Retry
from minutehand.client._destinations import NewDestination
from minutehand.local.kafka import RunningKafka
from minutehand.webhooks import verify
from tests.support.cassandra import SuiteCassandra
from tests.support.kafka import make_topic, read_topic
from tests.support.processes import deployment

CLIENT = "shop"


def headers_of(record: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in record.headers()}


def test_calls_become_records(cassandra: SuiteCassandra, kafka: RunningKafka, tmp_path: Path) -> None:
    topic = make_topic(kafka, "shop.orders")
    targets = tmp_path / "targets.toml"
    targets.write_text(
        f"""[kafka.clusters.main]
brokers = ["{kafka.bootstrap_servers}"]
clients = ["{CLIENT}"]
topic_prefixes = ["{{client}}."]
message_timeout_seconds = 2
""",
        encoding="utf-8",
    )
    with deployment(cassandra, tmp_path, tables={"targets": {"file": str(targets)}}) as cluster:
        cluster.start_api()
        cluster.start_node("one")
        own = cluster.register(CLIENT, poller_quota=1)
        with cluster.client(CLIENT, own) as client, cluster.client(CLIENT, cluster.admin_key) as admin:
            with pytest.raises(MinutehandApiError, match="must begin with"):
                admin.destinations.put("orders", {"kind": "kafka", "target": {"cluster": "main", "topic": "crm.x"}})
            put = admin.destinations.put(
                "orders",
                NewDestination(kind="kafka", target={"cluster": "main", "topic": topic}, headers={"x-shared": "1"}),
            )
            assert (put.kind, put.url, put.target) == (
                "kafka",
                f"kafka://main/{topic}",
                {"cluster": "main", "topic": topic},
            )
            secret = admin.signing_secrets.create().secret
            callback = Callback(destination="orders", path="/late", json={"order": 17})
            tried = client.trial_call(callback)
            assert (tried.delivered, tried.status, tried.error, tried.sent) == (True, None, None, True)
            made = client.schedules.create(callback, delay_seconds=0.5, ordering_key="order-17")
            found = await_state(client, made.schedule_id, "delivered")
            assert (found.attempts, found.last_status, found.last_error) == (1, None, None)
            (attempt,) = client.schedules.attempts(made.schedule_id)
            assert (attempt.outcome, attempt.status, attempt.error) == ("delivered", None, None)
            trial, record = read_topic(kafka, topic)
            assert headers_of(trial)["Minutehand-Trial"] == "true"
            headers = headers_of(record)
            assert verify(record.value(), headers, secret).webhook_id == str(made.schedule_id)
            assert (headers["x-shared"], headers["Minutehand-Path"], record.key()) == ("1", "/late", b"order-17")
            assert int(headers["Minutehand-Fence"]) > 0
            # A topic that is not there: tried again, and counted.
            admin.destinations.put("orders", {"kind": "kafka", "target": {"cluster": "main", "topic": "shop.none"}})
            lost = client.schedules.create(
                callback, delay_seconds=3, retry=Retry(max_attempts=2, base_seconds=0.1, cap_seconds=0.1)
            )
            failed = await_state(client, lost.schedule_id, "failed")
            assert (failed.last_error, failed.reason, failed.attempts) == ("unavailable", "exhausted", 2)
            told = {(one.error, one.excerpt) for one in client.schedules.attempts(lost.schedule_id)}
            assert told == {("unavailable", "the cluster has no such topic")}
            figures = client.destinations.get("orders").figures
            assert figures is not None
            assert (figures.calls, figures.failures) == (3, 2)
            assert figures.answer_p50_seconds is not None


def await_state(client: Any, schedule_id: Any, state: str) -> Any:
    deadline = time.monotonic() + 60
    while True:
        found = client.schedules.get(schedule_id)
        if found.state == state:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
