"""The pure parts of the bench: the dues it sends, its counts, and its report."""

import argparse
import io
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cql.schedule_rows import definition_item
from scheduler_service.domain.once import parse_once
from scheduler_service.domain.quotas import RUN_LENGTH
from tests.bench.create_cost import InstantConnection
from tests.bench.load import SCATTERED, STRIDE, Dues, Plan
from tests.bench.scale import MOST_BYTES, Point, batch_of, calls_of, points
from tests.bench.scale_picture import draw
from tests.bench.show import compared_with_plain, print_scale, scale_rows, told_of_seconds
from tests.bench.whole_seconds import last_of_each
from tests.support.minutes import definition

START = 1_800_000_000_000
HOUR, WEEK, MINUTE = 3_600_000, 604_800_000, 60_000


def minutes(dues: Dues, count: int) -> set[int]:
    return {dues.next() // MINUTE for _ in range(count)}


async def test_what_creates_cost_is_measured_of_rows_as_they_are_written() -> None:
    for packs in (False, True):
        await InstantConnection().write_batch([definition_item(definition(), packs=packs)])


def test_consecutive_dues_share_minutes_and_go_round() -> None:
    dues = Dues(START, START + HOUR)
    assert len(minutes(dues, 1_000)) == 6
    later = [dues.next() for _ in range(9_001)]
    assert later[-1] == START
    assert max(later) < START + HOUR


def test_scattered_dues_hardly_share_a_minute_and_stay_in_the_window() -> None:
    assert math.gcd(SCATTERED, STRIDE) == 1
    dues = Dues(START, START + WEEK, scattered=True)
    assert len(minutes(dues, 1_000)) == 1_000
    assert all(START <= dues.next() < START + WEEK for _ in range(10_000))


def test_whole_seconds_get_the_same_number_each() -> None:
    dues = Dues(START, START + 4_000, spread=40, whole_seconds=True)
    found = [dues.next() for _ in range(40)]
    assert {due: found.count(due) for due in found} == {START + second * 1000: 10 for second in range(4)}


def plan(**options: object) -> Plan:
    values: dict[str, object] = {
        "batch": 0,
        "count": None,
        "keyed": False,
        "once": 0,
        "own_keys": None,
        "scattered": False,
        "whole_seconds": False,
        "targets": None,
        "due_from": START,
        "due_to": START + HOUR,
        "client": "one",
        "key": "k1",
        "receiver": "http://r/",
        "body_bytes": 3,
        "ack_seconds": None,
        **options,
    }
    return Plan(argparse.Namespace(**values))


def asked(request: bytes | None) -> tuple[bytes, Any]:
    """The head of a request whose length matches its body, and the body."""
    assert request is not None
    head, _, body = request.partition(b"\r\n\r\n")
    assert int(head.rpartition(b"Content-Length: ")[2]) == len(body)
    return head, json.loads(body)


def test_bench_callbacks_may_be_acknowledged_later() -> None:
    assert "ack" not in asked(plan().next())[1]["callback"]
    assert asked(plan(ack_seconds=60).next())[1]["callback"]["ack"] == {"within_seconds": 60}


def test_each_bench_request_has_its_body_and_a_key_of_its_own() -> None:
    head, body = asked(plan().next())
    assert head.startswith(b"POST /v1/clients/one/schedules HTTP/1.1\r\n")
    assert b"Idempotency-Key" not in head
    assert body == {"due": "2027-01-15T08:00:00.000Z", "callback": {"url": "http://r/", "body": "xxx"}}
    keyed = plan(keyed=True)
    keys = {asked(keyed.next())[0].partition(b"Idempotency-Key: ")[2].partition(b"\r\n")[0] for _ in range(5)}
    assert len(keys) == 5
    assert b"" not in keys
    once = plan(once=2)
    tokens = [asked(once.next())[0].partition(b"?once=")[2].partition(b" ")[0].decode() for _ in range(2 * RUN_LENGTH)]
    assert Counter(parse_once(token).poller for token in tokens) == {0: RUN_LENGTH, 1: RUN_LENGTH}
    assert len(set(tokens)) == len(tokens)
    for own_keys, different in ((2, 2), (0, 5)):
        puts = plan(own_keys=own_keys)
        lines = [asked(puts.next())[0].partition(b"\r\n")[0] for _ in range(5)]
        assert len(set(lines)) == different
        assert all(
            re.fullmatch(rb"PUT /v1/clients/one/schedules/by-key/[0-9a-f]{12}-\d HTTP/1\.1", one) for one in lines
        )


def test_clients_take_turns_by_request_and_receivers_by_schedule(tmp_path: Path) -> None:
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps({"clients": [["a", "ka"], ["b", "kb"]], "receivers": ["http://0/", "http://1/"]}))
    requests = plan(targets=targets, batch=3, count=7)
    first, second, third = (asked(requests.next()) for _ in range(3))
    assert requests.next() is None
    assert [b"/clients/a/" in head and b"Bearer ka\r\n" in head for head, _ in (first, second, third)] == [
        True,
        False,
        True,
    ]
    urls = [item["callback"]["url"] for _, body in (first, second, third) for item in body["items"]]
    assert urls == [f"http://{number % 2}/" for number in range(7)]


def test_the_last_of_a_due_is_the_last_first_call() -> None:
    calls = [
        {"id": "a", "due": 10.0, "arrived": 10.25},
        {"id": "b", "due": 10.0, "arrived": 10.5},
        {"id": "c", "due": 11.0, "arrived": 11.125},
        {"id": "a", "due": 10.0, "arrived": 13.0},  # once more
    ]
    assert last_of_each(calls) == {10.0: 0.5, 11.0: 0.125}
    assert last_of_each([]) == {}


def test_a_bench_makes_fewer_calls_with_long_bodies() -> None:
    assert calls_of(Point(axis="bytes", at=100, body_bytes=100), 20_000) == 20_000
    longest = Point(axis="bytes", at=65_536, body_bytes=65_536)
    assert calls_of(longest, 20_000) * 65_536 <= MOST_BYTES
    assert batch_of(longest, 1_600) * 65_536 <= 4 * 1024 * 1024 // 2
    many = Point(axis="clients", at=10_000, clients=10_000)
    assert calls_of(many, 2_000) == 10_000
    assert batch_of(many, 20_000) == 2
    assert batch_of(many, 10_000) == 1
    assert batch_of(Point(axis="pollers", at=64), 20_000) == 1_000


def test_the_bench_measures_the_documented_points() -> None:
    every = points()
    assert [point.at for point in every if point.axis == "pollers"] == [1, 8, 64, 512, 4_096]
    assert all(point.clients * point.pollers == point.at for point in every if point.axis == "pollers")
    assert all(point.pollers <= 1_024 for point in every)
    assert [point.clients for point in every if point.axis == "clients"] == [1, 10, 100, 1_000, 10_000]
    assert [point.hosts for point in every if point.axis == "hosts"] == [1, 10, 100, 1_000]
    assert [point.name for point in every if point.axis == "receiver"] == ["plain", "TLS"]
    assert [point.at for point in points(2) if point.axis == "bytes"] == [100, 1_000]


def scaled() -> dict[str, Any]:
    def point(axis: str, name: str, creates: float, calls: float) -> dict[str, Any]:
        return {
            "axis": axis,
            "name": name,
            "creates": {
                "created_per_second": 1_500.0,
                "cpu_seconds_per_1000": {"all": creates + 1.5, "cassandra compiler": 1.5},
            },
            "calls": {
                "fired_per_second": None,
                "lost": 0,
                "repeated": 1,
                "early": 2,
                "cpu_seconds_per_1000": {"all": calls, "bench-1": 0.1},
            },
        }

    return {
        "points": [
            point("pollers", "1", 0.5, 0.2),
            point("pollers", "8", 0.55, 0.3),
            point("receiver", "plain", 0.4, 0.0),
            point("receiver", "TLS", 0.4, 0.6),
        ]
    }


def test_costs_are_shown_beside_the_first_of_their_axis() -> None:
    assert scale_rows(scaled()) == [
        ["pollers", "1", "0.500", "1.00", "0.200", "1.00", "1,500", "0", "0", "1", "2"],
        ["pollers", "8", "0.550", "1.10", "0.300", "1.50", "1,500", "0", "0", "1", "2"],
        ["receiver", "plain", "0.400", "1.00", "0.000", "", "1,500", "0", "0", "1", "2"],
        ["receiver", "TLS", "0.400", "1.00", "0.600", "", "1,500", "0", "0", "1", "2"],
    ]
    console = Console(width=200, file=io.StringIO())
    print_scale(console, scaled())
    assert isinstance(console.file, io.StringIO)
    assert "1.50" in console.file.getvalue()


@pytest.mark.cpu_budget(10)  # matplotlib is imported
def test_the_picture_has_a_panel_for_each_axis(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(scaled(), tmp_path / "scale.png")
    assert [path.name for path in tmp_path.iterdir()] == ["scale.png"]
    head = (tmp_path / "scale.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert int.from_bytes(head[16:20], "big") > int.from_bytes(head[20:24], "big")


def test_the_sdk_is_compared_with_a_plain_create() -> None:
    def used(**seconds: float) -> dict[str, Any]:
        return {"cpu_seconds_per_1000": {**seconds, "all": seconds["all"] + 0.7, "cassandra compiler": 0.7}}

    results = {
        "creates_single": used(load=0.02, all=0.4),
        "creates_keyed": used(load=0.03, all=0.8),
        "creates_sdk_async": used(sdk=0.5, all=1.0),
    }
    keyed, asynchronous = compared_with_plain(results)
    assert keyed.startswith("creates keyed: 0.030 CPU seconds per 1,000 in its process, 1.5 times")
    assert "25.0 times" in asynchronous
    assert "2.50 times a plain create" in asynchronous
    assert compared_with_plain({"creates_sdk": results["creates_sdk_async"]}) == []


def test_whole_seconds_are_reported() -> None:
    found = {"calls_at_whole_seconds": {"last_of_a_second_ms": {"least": 90.0, "p50": 150.4, "max": 1_201.0}}}
    (line,) = told_of_seconds(found)
    assert "150 ms" in line
    assert "1,201 ms" in line
    assert told_of_seconds({}) == []
