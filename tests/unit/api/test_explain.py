"""`GET .../schedules/{id}:explain`."""

from scheduler_service.domain.ids import UnixMillis, due_of
from scheduler_service.domain.schedules import State
from tests.support.api import ApiHarness
from tests.support.outcomes import attempted, created, ended


async def test_a_late_delivery_is_explained(api: ApiHarness, key: str) -> None:
    schedule_id = await created(api, key)
    due = due_of(schedule_id)
    await ended(
        api,
        schedule_id,
        State.DELIVERED,
        first_attempt_at=UnixMillis(due + 5_000),
        fired_by="n@1 waited ordering=4900/x",
        fired_epoch=1,
    )
    reply = await api.send("GET", f"/v1/clients/shop/schedules/{schedule_id}:explain", key=key)
    assert reply.status == 200, reply.body
    story = reply.json
    assert (story["verdict"], story["late_seconds"], story["cause"]) == ("late", 5.0, "ordering")
    assert story["sentence"].startswith("It was late by 5 s because an earlier call of its ordering key")
    (wait,) = [step for step in story["steps"] if step["step"] == "waited"]
    assert (wait["seconds"], wait["behind"]) == (4.9, "x")


async def test_failed_attempts_are_steps(api: ApiHarness, key: str) -> None:
    schedule_id = await created(api, key)
    await attempted(api, schedule_id, 1)
    await ended(api, schedule_id, State.FAILED)
    story = (await api.send("GET", f"/v1/clients/shop/schedules/{schedule_id}:explain", key=key)).json
    assert [step["text"] for step in story["steps"] if step["step"] == "attempt"] == ["Attempt 1 failed: status 503."]


async def test_an_unknown_schedule_has_no_story(api: ApiHarness, key: str) -> None:
    path = "/v1/clients/shop/schedules/01a1fd71-2c58-8000-882a-6d1f0c3e5a97:explain"
    assert (await api.send("GET", path, key=key)).status == 404
