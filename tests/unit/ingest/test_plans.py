"""Plans, runs, and the ids that a token gives."""

from typing import Any
from uuid import UUID

import pytest

from minutehand.ingest.plans import (
    Plan,
    Portion,
    body_of,
    fingerprint_of,
    ids_under,
    items_of,
    left_of,
    next_portion,
    plan_within,
    read_plan,
)
from minutehand.ingest.records import Cancel, Create, Reading, Record, poison, read_document
from scheduler_service.domain.instants import format_instant
from tests.support.api import NOW, ApiHarness
from tests.unit.ingest.test_records import document

TOKEN = f"{NOW}.3.1.0123456789abcdef"


def create(**fields: Any) -> Create:
    value = document(**{"due": format_instant(NOW + 3_600_000), **fields})
    reading = read_document(Record("t", 0, 0, NOW, b"k", value))
    assert isinstance(reading, Create)
    return reading


def test_plans_are_read_as_they_were_written() -> None:
    for left in (None, 0, 5, (1 << 1000) - 1):
        plan = Plan(70, TOKEN, NOW, fingerprint_of(b""), left)
        assert read_plan(plan.text()) == plan
        assert len(plan.text()) < 4096, "Kafka's bound"
    assert Plan(1, TOKEN, 0, "", left_of([0, 2])).among([create()] * 3) == [0, 2]


@pytest.mark.parametrize("metadata", [None, "", "x", "minutehand-1 5 t 0 d -", f"minutehand-1 x {TOKEN} 0 d -"])
def test_other_metadata_is_no_plan(metadata: str | None) -> None:
    assert read_plan(metadata) is None


C, K, P = create(), Cancel("k"), poison("x")


@pytest.mark.parametrize(
    ("readings", "portion"),
    [
        ([C], Portion(1, False)),
        ([C, C, K, C], Portion(2, False)),
        ([K, K, C], Portion(2, True)),
        ([P, C, P, K], Portion(3, False)),
        ([P, P], Portion(2, False)),
        ([C] * 10, Portion(3, False)),
        ([K] * 10, Portion(3, True)),
    ],
)
def test_portiones_are_of_one_kind_and_bounded(readings: list[Reading], portion: Portion) -> None:
    assert next_portion(readings, most_items=3, most_bytes=1 << 20) == portion
    assert next_portion([C, C], most_items=3, most_bytes=1) == Portion(1, False), "at least one"


def test_overdue_creates_are_due_from_the_oldest_on_in_their_order() -> None:
    creates = [create(due=format_instant(NOW - ms)) for ms in (5_000, 90_000, 70_000, 90_000)]
    items = items_of(creates, range(4), oldest=NOW - 60_000)
    moved = [format_instant(NOW - 60_000 + turn) for turn in (0, 1, 0)]
    assert [text in item.decode() for text, item in zip(moved, items[1:], strict=True)] == [True] * 3
    assert format_instant(NOW - 5_000) in items[0].decode()


async def test_the_ids_under_a_token_are_those_that_the_api_gives() -> None:
    creates = [
        *[create() for _ in range(60)],
        create(due=format_instant(NOW - 30_000)),
        create(due=format_instant(NOW - 20_000)),
        create(due=format_instant(NOW - 20_000)),
        create(window_seconds=60),
        create(ordering_key="o"),
        create(timeout_seconds=-1),
        create(label=7),
        create(ordering_key="o", timeout_seconds=-1),
        create(due=format_instant(NOW + 40_000 * 86_400_000)),
        create(op="put", key="k1"),
        create(op="put", key="k1", latest=format_instant(NOW + 60_000)),
        create(due="nonsense"),
        create(due={"local": "2026-11-22T09:00", "timezone": "Europe/Berlin"}),
        *[create() for _ in range(60)],
    ]
    items = items_of(creates, range(len(creates)), oldest=0)
    body = body_of(items)
    async with ApiHarness() as api:
        key = await api.register()
        headers = {"Content-Type": "application/json"}
        path = f"/v1/clients/shop/schedules:batch?once={TOKEN}"
        reply = await api.send("POST", path, key=key, data=body, headers=headers)
        assert reply.status == 200, reply.json
    made = [item.get("schedule", {}).get("schedule_id") for item in reply.json["items"]]
    assert len([one for one in made if one]) == 60 + 8 + 60
    ids = ids_under(TOKEN, "shop", body, items)
    differing = [at for at, (one, id_) in enumerate(zip(made, ids, strict=True)) if one and one != str(id_)]
    (earlier,) = differing
    assert creates[earlier].fields.get("latest") is not None
    id_ = ids[earlier]
    assert id_ is not None
    assert (UUID(made[earlier]).int ^ id_.int) & ((1 << 80) - 1) == 0, (
        "because of its latest it differs in the due only"
    )


@pytest.mark.parametrize(("end", "left"), [(21, "whole"), (20, "whole"), (15, "broken"), (10, "none")])
def test_a_plan_beyond_the_end_of_its_log_was_cut_off(end: int, left: str) -> None:
    plan = Plan(20, f"{NOW}.3.1.{'n' * 22}", NOW, "f" * 24, 5)
    found = plan_within(plan, offset=10, end=end)
    if left == "whole":
        assert found == plan
    elif left == "broken":
        assert found is not None
        assert (found.end, found.broken) == (15, True)
        assert read_plan(found.text()) == found
    else:
        assert found is None
    assert plan_within(None, offset=10, end=end) is None
