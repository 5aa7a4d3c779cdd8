"""Traces with real processes: from the `traceparent` of a create to the receiver's, and the spans at a collector."""

from pathlib import Path
from typing import Any

import httpx

from tests.support.cassandra import SuiteCassandra
from tests.support.otlp import collector
from tests.support.processes import Deployment, deployment
from tests.support.recording_receiver import Answer, RecordingReceiver, Request, listening

CLIENT = "shop"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=opaque"}


class Called(RecordingReceiver):
    def answer(self, request: Request) -> Answer:
        return Answer(204)

    def headers_of(self, schedule_id: str) -> dict[str, str]:
        """Those of the one call of this schedule."""
        self.awaited(schedule_id, 1, seconds=60.0)
        (call,) = self.of(schedule_id)
        return call.headers


def create(cluster: Deployment, key: str, url: str, *, trace: dict[str, str], **asked: object) -> str:
    callback = {"url": url, "json": {"order": 17}, **asked}
    answer = httpx.post(
        f"{cluster.api_url}/v1/clients/{CLIENT}/schedules",
        headers={"Authorization": f"Bearer {key}", **trace},
        json={"delay_seconds": 2, "callback": callback},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["schedule_id"])


def test_a_trace_goes_from_the_create_to_the_receiver(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with collector() as spans, listening(Called(), "/hook") as calls:
        trace: dict[str, Any] = {"endpoint": spans.url, "authorization": "Bearer of-the-collector"}
        with deployment(cassandra, tmp_path, tables={"trace": trace}) as cluster:
            cluster.start_api()
            cluster.start_node("one")
            key = cluster.register(CLIENT, poller_quota=1)
            traced = create(cluster, key, calls.url, trace=SAMPLED)
            unsampled = create(cluster, key, calls.url, trace={"traceparent": f"00-{TRACE}-{CALLER}-00"})
            malformed = create(cluster, key, calls.url, trace={"traceparent": f"00-{TRACE.upper()}-{CALLER}-01"})
            own = create(cluster, key, calls.url, trace=SAMPLED, headers={"Traceparent": "the-client's-own"})
            headers = calls.headers_of(traced)

            made, wait, attempt = spans.await_spans(traced, "create", "wait", "attempt")
            assert {made.trace, wait.trace, attempt.trace} == {TRACE}
            assert [made.parent, wait.parent, attempt.parent] == [CALLER, made.span, made.span]
            assert wait.links == attempt.links == ((TRACE, made.span),)
            assert (made.service, wait.service, attempt.service) == ("minutehand-api",) + ("minutehand-node",) * 2
            assert (made.kind, wait.kind, attempt.kind) == ("server", "internal", "client")
            assert (made.state, attempt.state) == ("vendor=opaque",) * 2
            assert made.ended <= wait.began <= wait.ended == attempt.began <= attempt.ended
            assert (attempt.attributes["http.response.status_code"], attempt.failed) == (204, False)
            assert spans.received[0].headers["authorization"] == "Bearer of-the-collector"

            assert headers["traceparent"] == f"00-{TRACE}-{attempt.span}-01"
            assert headers["tracestate"] == "vendor=opaque"
            assert calls.headers_of(own)["traceparent"] == "the-client's-own"
            # Made last, so spans of the others would have come before.
            spans.await_spans(own, "create", "wait", "attempt")
            for one in (unsampled, malformed):
                assert "traceparent" not in calls.headers_of(one)
                assert spans.await_spans(one) == []
