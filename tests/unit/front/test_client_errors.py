"""The class of each API error, by its status."""

import httpx
import pytest

from minutehand.client import (
    Conflict,
    Forbidden,
    InvalidRequest,
    MinutehandApiError,
    NotFound,
    PreconditionFailed,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from tests.support.scripted_api import PROBLEM, Script, problem

CLASSES = {
    400: MinutehandApiError,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    422: InvalidRequest,
    429: TooManyRequests,
    500: MinutehandApiError,
    503: Unavailable,
}


@pytest.mark.parametrize("status", CLASSES)
def test_a_refusal_is_of_the_class_of_its_status(script: Script, status: int) -> None:
    script.answers = [problem(status, {**PROBLEM, "status": status})]
    with script.api() as api, pytest.raises(MinutehandApiError) as caught:
        api.client("shop").schedules.get("x")
    assert (type(caught.value), caught.value.status) == (CLASSES[status], status)


def test_administrators_keys_are_made_listed_and_revoked(script: Script) -> None:
    made = {"key_id": "k1", "name": "ops", "key": "mh_k1_x", "created_at": "2026-11-21T09:00:00.000Z"}
    listed = {**made, "revoked_at": "2026-11-21T09:30:00.000Z"}
    script.answers = [
        httpx.Response(201, json=made),
        httpx.Response(200, json={"items": [listed]}),
        httpx.Response(204),
    ]
    with script.api() as api:
        assert api.admin_keys.create("ops").key == "mh_k1_x"
        (one,) = api.admin_keys.list()
        assert (one.name, one.revoked_at is None) == ("ops", False)
        api.admin_keys.revoke("k1")
    assert [(request.method, request.url.path) for request in script.requests] == [
        ("POST", "/v1/admin-keys"),
        ("GET", "/v1/admin-keys"),
        ("DELETE", "/v1/admin-keys/k1"),
    ]
    assert script.sent(0) == {"name": "ops"}
