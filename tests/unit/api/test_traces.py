"""Traces of creates over HTTP, whichever way a create takes through the API."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import msgspec
import pytest
from multidict import CIMultiDict

from scheduler_service.domain.ids import ClientId, key_of, partition_of
from scheduler_service.domain.options import decode_options
from scheduler_service.domain.revisions import REVISED_SINCE
from scheduler_service.domain.traces import Sampling, TraceMark, own_context
from scheduler_service.runtime.tracing import Span
from scheduler_service.usecases.create_traces import CreateTraces
from tests.support.api import ApiHarness, ManualClock, schedule
from tests.unit.api.plain import SCHEDULES

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=opaque"}
MARK = TraceMark(TRACE, "vendor=opaque")


class Spans:
    """A sink that keeps spans."""

    def __init__(self) -> None:
        self.kept: list[Span] = []

    def ended(self, span: Span) -> None:
        self.kept.append(span)


class Bench:
    def __init__(self, api: ApiHarness, spans: Spans, key: str) -> None:
        self.api, self.spans, self.key = api, spans, key

    async def send(self, path: str = SCHEDULES, *, method: str = "POST", **asked: Any) -> Any:
        return await self.api.send(method, path, key=self.key, **asked)

    async def mark(self, schedule_id: str) -> TraceMark | None:
        """What the row stores of a trace."""
        of = UUID(schedule_id)
        partition = partition_of(ClientId("shop"), of)  # type: ignore[arg-type]
        _, rows = await self.api.storage.schedules.read_rows(partition, [key_of(of)])  # type: ignore[arg-type]
        return decode_options(rows[key_of(of)].options).trace  # type: ignore[arg-type]

    def told(self) -> list[tuple[object, object]]:
        """Schedule and status of each span."""
        named = ("minutehand.schedule_id", "http.response.status_code")
        return [(span.attributes[named[0]], span.attributes[named[1]]) for span in self.spans.kept]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    spans, clock = Spans(), ManualClock()
    traces = CreateTraces(sampling=Sampling(), sink=spans, clock=clock)
    async with ApiHarness(clock=clock, traces=traces) as api:
        yield Bench(api, spans, await api.register("shop"))


async def test_plain_creates_are_traced_and_told_apart(bench: Bench) -> None:
    for number in range(3):
        parent = f"00-{TRACE}-{number + 1:016x}-01"
        reply = await bench.send(json=schedule(), headers={"traceparent": parent, "tracestate": "vendor=opaque"})
        assert reply.status == 201
        assert await bench.mark(reply.json["schedule_id"]) == MARK
        assert bench.told()[number:] == [(reply.json["schedule_id"], 201)]
        assert bench.spans.kept[number].parent == number + 1
    untraced = await bench.send(json=schedule())
    assert await bench.mark(untraced.json["schedule_id"]) is None
    assert len(bench.spans.kept) == 3


async def test_each_schedule_of_a_batch_is_part_of_the_callers_trace(bench: Bench) -> None:
    reply = await bench.send(f"{SCHEDULES}:batch", json={"items": [schedule(), schedule()]}, headers=SAMPLED)
    assert reply.status in (200, 201), reply.body
    assert len(bench.spans.kept) == 2
    for span in bench.spans.kept:
        schedule_id = str(span.attributes["minutehand.schedule_id"])
        assert span.context == (int(TRACE, 16), own_context(UUID(schedule_id)).span_id)
        assert await bench.mark(schedule_id) == MARK


async def test_a_repeated_create_under_one_key_is_the_same_row_with_another_trace(bench: Bench) -> None:
    """Each try of a caller has a `traceparent` of its own: it must not make the content another one."""
    first = await bench.send(json=schedule(), headers={**SAMPLED, "Idempotency-Key": "one"})
    again = await bench.send(
        json=schedule(), headers={"traceparent": f"00-{CALLER * 2}-{CALLER}-01", "Idempotency-Key": "one"}
    )
    assert (first.status, again.status) == (201, 200)
    assert first.json["schedule_id"] == again.json["schedule_id"]
    assert await bench.mark(first.json["schedule_id"]) == MARK


async def test_a_moved_schedule_keeps_its_trace_and_has_a_span_there(bench: Bench) -> None:
    """The request that moves it has a trace of its own: the two are linked."""
    first = (await bench.send(json=schedule(), headers=SAMPLED)).json["schedule_id"]
    own = f"00-{CALLER * 2}-{CALLER}-01"
    moved = await bench.send(
        f"{SCHEDULES}/{first}:reschedule", json={"delay_seconds": 900}, headers={"traceparent": own}
    )
    second = moved.json["schedule_id"]
    assert (first != second, await bench.mark(second)) == (True, MARK)
    span = bench.spans.kept[-1]
    assert span.context == (int(TRACE, 16), own_context(UUID(second)).span_id)
    assert (span.parent, span.links, span.state) == (None, ((int(CALLER * 2, 16), int(CALLER, 16)),), "vendor=opaque")
    assert bench.told() == [(first, 201), (second, moved.status)]


async def test_an_update_in_place_keeps_the_trace(bench: Bench) -> None:
    bench.api.members.nodes_know = REVISED_SINCE
    first = (await bench.send(json=schedule(), headers=SAMPLED)).json["schedule_id"]
    own = {"traceparent": f"00-{CALLER * 2}-{CALLER}-01"}
    changed = await bench.send(f"{SCHEDULES}/{first}", method="PATCH", json={"label": "other"}, headers=own)
    assert (changed.status, changed.json["schedule_id"]) == (200, first), changed.body
    assert await bench.mark(first) == MARK
    assert len(bench.spans.kept) == 1


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        ([*SAMPLED.items(), ("tracestate", "other=2")], TraceMark(TRACE, "vendor=opaque,other=2")),
        ([*SAMPLED.items(), ("traceparent", f"00-{CALLER * 2}-{CALLER}-01")], None),
    ],
)
async def test_several_lines_are_one_list_and_two_parents_are_none(
    bench: Bench, lines: list[tuple[str, str]], mark: TraceMark | None
) -> None:
    made = await bench.send(json=schedule(), headers=CIMultiDict(lines))
    assert await bench.mark(made.json["schedule_id"]) == mark


async def test_what_is_refused_has_no_span(bench: Bench) -> None:
    assert (await bench.send(data=b"{}", headers={**SAMPLED, "Content-Type": "application/json"})).status in (400, 422)
    assert (await bench.send(method="GET", headers=SAMPLED)).status == 200
    assert bench.spans.kept == []


async def test_an_answer_shows_nothing_of_the_trace(bench: Bench) -> None:
    reply = await bench.send(json=schedule(), headers=SAMPLED)
    shown = await bench.send(f"{SCHEDULES}/{reply.json['schedule_id']}", method="GET")
    assert TRACE not in msgspec.json.encode([reply.json, shown.json]).decode()
