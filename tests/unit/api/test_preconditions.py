"""Every request that may change something heeds If-Match and If-None-Match, or refuses them."""

from typing import Any

import pytest

from scheduler_service.api.http.auth import Access
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from tests.support.api import ApiHarness, schedule
from tests.support.api_story import ROUTE, Story

HEEDED = {
    "cancel_schedule": ("create_schedule",),
    "cancel_schedule_by_key": ("put_schedule",),
    "change_settings": (),
    "delete_client": ("suspend_client",),
    "delete_cron": ("put_cron",),
    "delete_destination": ("put_destination",),
    "delete_subscription": ("put_destination", "put_subscription"),
    "pause_client": (),
    "pause_cron": ("put_cron",),
    "pause_destination": ("put_destination",),
    "put_client": (),
    "put_cron": (),
    "put_destination": (),
    "put_schedule": (),
    "put_subscription": ("put_destination",),
    "reschedule_schedule": ("create_schedule",),
    "resume_client": ("suspend_client",),
    "resume_cron": ("put_cron", "pause_cron"),
    "resume_destination": ("put_destination", "pause_destination"),
    "run_schedule": ("create_schedule",),
    "suspend_client": (),
    "unpause_client": ("pause_client",),
    "update_schedule": ("create_schedule",),
}
"""Those that heed them, each with what makes the thing that it changes."""
CHANGES = [
    id_ for id_, route in ROUTE.items() if route.method not in ("GET", "HEAD") and route.access is not Access.OPEN
]
STALE = {"If-Match": '"stale"'}


async def begun(api: ApiHarness, *before: str) -> Story:
    await api.add_built_in_clients()
    story = Story(api)
    for id_ in before:
        reply = await story.try_(id_)
        assert reply.status < 300, reply.body
        if reply.status == 201:
            story.names |= {name: chosen for name in story.names if (chosen := reply.json.get(name)) is not None}
    return story


@pytest.mark.parametrize("id_", CHANGES)
async def test_each_heeds_entity_tags_or_refuses_them(api: ApiHarness, id_: str) -> None:
    assert ROUTE[id_].conditional == (id_ in HEEDED)
    puts = id_.startswith("put_")
    story = await begun(api, *(() if id_ == "put_client" else ("put_client",)), *HEEDED.get(id_, ()))
    reply = await story.try_(id_, headers=STALE)
    if id_ not in HEEDED:
        assert (reply.status, [fault["pointer"] for fault in reply.json["errors"]]) == (422, ["/If-Match"])
        both = await story.try_(id_, headers=STALE | {"If-None-Match": "*"})
        assert [fault["pointer"] for fault in both.json["errors"]] == ["/If-Match", "/If-None-Match"]
        return
    assert (reply.status, reply.json["type"]) == (412, "/problems/precondition-failed"), reply.body
    assert puts or (await story.try_(id_, headers={"If-None-Match": "*"})).status == 412
    assert (await story.try_(id_, headers={"If-Match": "unquoted"})).status == 422
    done = await story.try_(id_, headers={"If-None-Match" if puts else "If-Match": "*"})
    assert done.status == ROUTE[id_].status, done.body
    assert ("ETag" in done.headers) == (done.status != 204)


@pytest.mark.parametrize(
    "id_", [id_ for id_ in HEEDED if (HEEDED[id_] and not id_.startswith("put_")) or id_.endswith("_client")]
)
async def test_the_tag_that_a_refusal_names_is_that_of_now(api: ApiHarness, id_: str) -> None:
    story = await begun(api, "put_client", *HEEDED[id_])
    stale = await story.try_(id_, headers=STALE)
    assert stale.status == 412, stale.body
    tag = stale.json["detail"].partition('"')[2].rstrip('"')
    made = await story.try_(id_, headers={"If-Match": f'"{tag}"'})
    assert made.status in (ROUTE[id_].status, 200), made.body


@pytest.mark.parametrize(
    ("id_", "before"),
    [("pause_client", ()), ("pause_cron", ("put_cron",)), ("pause_destination", ("put_destination",))],
)
async def test_a_repeat_whose_answer_was_lost_is_not_refused(
    api: ApiHarness, id_: str, before: tuple[str, ...]
) -> None:
    story = await begun(api, "put_client", *before)
    match = {"If-Match": '"1"'}
    if id_ == "pause_destination":
        match = {"If-Match": (await story.try_("get_destination")).headers["ETag"]}
    for _ in range(2):
        assert (await story.try_(id_, headers=match)).status == 200


async def test_a_plain_create_with_a_tag_is_refused_like_any_other(api: ApiHarness) -> None:
    key = await api.register("shop")
    for name, value in (("If-Match", '"x"'), ("If-None-Match", "*")):
        reply = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule(), headers={name: value})
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, f"/{name}")
    assert not api.connection.rows("schedules")


async def test_a_cancel_of_what_was_updated_since_it_was_seen_is_refused(api: ApiHarness) -> None:
    key = await api.register("shop")
    made = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())
    path = made.headers["Location"]
    seen = {"If-Match": (await api.send("GET", path, key=key)).headers["ETag"]}
    api.members.nodes_know = 1_000
    updated = await api.send("PATCH", path, key=key, json={"label": "y"})
    assert updated.headers["Location"] == path
    assert (await api.send("DELETE", path, key=key, headers=seen)).status == 412
    assert (await api.send("POST", f"{path}:run", key=key, headers=seen)).status == 412
    assert (await api.send("GET", path, key=key)).json["state"] == "scheduled"
    now = {"If-Match": updated.headers["ETag"]}
    for _ in range(2):
        gone = await api.send("DELETE", path, key=key, headers=now)
        assert (gone.status, gone.headers["ETag"]) == (200, now["If-Match"])


async def test_an_update_between_the_read_and_the_write_of_a_cancel_is_kept(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await api.register("shop")
    path = (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).headers["Location"]
    seen = {"If-Match": (await api.send("GET", path, key=key)).headers["ETag"]}
    api.members.nodes_know = 1_000
    write = CancelSchedules._cancel_open

    async def after_an_update(self: CancelSchedules, *args: Any) -> bool:
        monkeypatch.setattr(CancelSchedules, "_cancel_open", write)
        assert (await api.send("PATCH", path, key=key, json={"label": "y"})).status == 200
        return await write(self, *args)

    monkeypatch.setattr(CancelSchedules, "_cancel_open", after_an_update)
    assert (await api.send("DELETE", path, key=key, headers=seen)).status == 412
    left = (await api.send("GET", path, key=key)).json
    assert (left["state"], left["label"]) == ("scheduled", "y")
