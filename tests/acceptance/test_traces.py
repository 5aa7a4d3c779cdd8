"""Traces with real processes: from the `traceparent` of a create to the receiver's, and the spans at a collector."""

from pathlib import Path
from typing import Any

import httpx

from tests.support.cassandra import SuiteCassandra
from tests.support.otlp import collector
from tests.support.processes import Deployment, deployment

CLIENT = "shop"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=opaque"}


def create(cluster: Deployment, key: str, *, trace: dict[str, str], **asked: object) -> str:
    callback = {"url": cluster.receiver.url, "json": {"order": 17}, **asked}
    answer = httpx.post(
        f"{cluster.api_url}/v1/clients/{CLIENT}/schedules",
        headers={"Authorization": f"Bearer {key}", **trace},
        json={"delay_seconds": 0.5, "callback": callback},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["schedule_id"])


def sent(cluster: Deployment, schedule_id: str) -> dict[str, str]:
    """The headers of the call of this schedule, by lower-case name."""
    (call,) = [one for one in cluster.receiver.calls() if one["id"] == schedule_id]
    return {name.lower(): value for name, value in call["headers"].items()}


def test_a_trace_goes_from_the_create_to_the_receiver(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with collector() as spans:
        trace: dict[str, Any] = {"endpoint": spans.url, "authorization": "Bearer of-the-collector"}
        with deployment(cassandra, tmp_path, tables={"trace": trace}) as cluster:
            cluster.start_api()
            cluster.start_node("one")
            key = cluster.register(CLIENT, poller_quota=1)
            traced = create(cluster, key, trace=SAMPLED)
            unsampled = create(cluster, key, trace={"traceparent": f"00-{TRACE}-{CALLER}-00"})
            malformed = create(cluster, key, trace={"traceparent": f"00-{TRACE.upper()}-{CALLER}-01"})
            own = create(cluster, key, trace=SAMPLED, headers={"Traceparent": "the-client's-own"})
            assert cluster.receiver.await_count(4, seconds=60) == 4

            made, wait, attempt = spans.await_spans(traced, "create", "wait", "attempt")
            assert {made.trace, wait.trace, attempt.trace} == {TRACE}
            assert [made.parent, wait.parent, attempt.parent] == [CALLER, made.span, made.span]
            assert wait.links == attempt.links == ((TRACE, made.span),)
            assert (made.service, wait.service, attempt.service) == ("minutehand-api",) + ("minutehand-node",) * 2
            assert (made.kind, wait.kind, attempt.kind) == ("server", "internal", "client")
            assert (made.state, attempt.state) == ("vendor=opaque",) * 2
            assert made.ended <= wait.began <= wait.ended == attempt.began <= attempt.ended
            assert (attempt.attributes["http.response.status_code"], attempt.failed) == (200, False)
            assert spans.headers[0]["authorization"] == "Bearer of-the-collector"

            headers = sent(cluster, traced)
            assert headers["traceparent"] == f"00-{TRACE}-{attempt.span}-01"
            assert headers["tracestate"] == "vendor=opaque"
            assert sent(cluster, own)["traceparent"] == "the-client's-own"
            for one in (unsampled, malformed):
                assert "traceparent" not in sent(cluster, one)
                assert spans.await_spans(one) == []
