"""A program written for BigBen runs unchanged: whole processes, a real Cassandra, a receiver."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec

from minutehand.local.kafka import RunningKafka
from tests.support.cassandra import SuiteCassandra
from tests.support.kafka import make_topic, read_topic
from tests.support.processes import Deployment, deployment

PROGRAM = Path(__file__).parents[2] / "examples" / "bigben_program.py"


def run_program(base: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), base], capture_output=True, text=True, timeout=240, check=False
    )


def test_a_program_written_for_bigben_runs_unchanged(cluster: Deployment) -> None:
    cluster.start_api(variables={"MINUTEHAND_BIGBEN_CLIENT": "shop", "MINUTEHAND_BIGBEN_KEYLESS": "manage"})
    cluster.start_node("one")
    cluster.register("shop", poller_quota=20)
    done = run_program(f"{cluster.api_url}/bigben")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1].endswith("calls came: all as it was")


def test_a_messaging_processors_events_become_bigbens_records(
    cassandra: SuiteCassandra, kafka: RunningKafka, tmp_path: Path
) -> None:
    topic = make_topic(kafka, "events")
    targets = tmp_path / "targets.toml"
    targets.write_text(
        f"""[kafka.clusters.main]
brokers = ["{kafka.bootstrap_servers}"]
clients = ["shop"]
topic_prefixes = ["events"]
""",
        encoding="utf-8",
    )
    bigben = {"client": "shop", "keyless": "manage", "clusters": (f"{kafka.bootstrap_servers}=main",)}
    with deployment(cassandra, tmp_path, tables={"targets": {"file": str(targets)}, "bigben": bigben}) as built:
        built.start_api()
        built.start_node("one")
        built.register("shop", poller_quota=1)
        with httpx.Client(base_url=f"{built.api_url}/bigben", trust_env=False) as program:
            props = {"topic": topic, "bootstrap.servers": kafka.bootstrap_servers}
            config = {"tenant": "T", "type": "MESSAGING", "props": props}
            reply = program.post("/events/tenant/register", json=config)
            assert (reply.status_code, reply.json()) == (200, {"T": config})
            event = {"id": "order 17/ä", "tenant": "T", "payload": "P"}
            past, soon = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(seconds=2)
            events = [
                {**event, "eventTime": past.isoformat()},
                {**event, "id": "only", "eventTime": soon.isoformat(), "deliveryOption": "PAYLOAD_ONLY"},
            ]
            reply = program.post("/events/schedule", json=events)
            assert [one["eventStatus"] for one in reply.json()] == ["TRIGGERED", "ACCEPTED"], reply.text
            deadline = time.monotonic() + 60
            for event_id in ("order 17/ä", "only"):
                query = {"id": event_id, "tenant": "T"}
                while program.get("/events/find", params=query).json()["eventStatus"] != "PROCESSED":
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
    full, only = read_topic(kafka, topic)
    assert (full.key(), only.key(), only.value()) == ("order 17/ä".encode(), b"only", b"P")
    body = msgspec.json.decode(full.value() or b"")
    assert (body["id"], body["tenant"], body["payload"], body["eventStatus"]) == ("order 17/ä", "T", "P", "TRIGGERED")
