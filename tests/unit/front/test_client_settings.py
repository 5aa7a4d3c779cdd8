"""Client settings in the configuration, the SDK and the commands."""

import asyncio
import json
from typing import Any, get_type_hints

import httpx
import msgspec
import pytest

from minutehand.cli import failures
from minutehand.client import (
    AsyncMinutehand,
    ClientSettings,
    FlowLimits,
    FlowRules,
    HostLimit,
    LatePolicy,
    Minutehand,
    OwnSettings,
    PreconditionFailed,
    RetrySettings,
)
from minutehand.config import ConfigurationInvalid, load_settings
from scheduler_service.domain import clients, flows
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.scripted_api import PROBLEM, Script, problem

CLIENT = {
    "client_id": "shop",
    "poller_quota": 2,
    "poller_ceiling": 2,
    "state": "active",
    "settings": {"horizon_days": 30},
    "stored_settings": {"horizon_days": 730},
    "revision": 1,
    "created_at": "2026-11-21T09:00:00.000Z",
}
ENVIRONMENT = {"MINUTEHAND_API_ADMIN_KEY": "an-administrators-key", "MINUTEHAND_CLUSTER_TOKEN": "a-clusters-token"}


@pytest.mark.parametrize(
    ("typed", "struct"),
    [
        (ClientSettings, clients.ClientSettings),
        (OwnSettings, clients.OwnSettings),
        (RetrySettings, clients.RetrySettings),
        (LatePolicy, clients.LatePolicy),
        (HostLimit, clients.HostLimit),
        (FlowRules, flows.FlowRules),
        (FlowLimits, flows.FlowLimits),
    ],
)
def test_the_sdk_knows_every_setting(typed: type, struct: type[msgspec.Struct]) -> None:
    assert list(get_type_hints(typed)) == list(struct.__struct_fields__)


def test_what_is_registered_and_what_is_in_force() -> None:
    asked = ClientSettings(create_rate_per_second=50, read_consistency="LOCAL_ONE", retry=RetrySettings(max_attempts=2))
    script = Script()
    script.answers = [httpx.Response(201, json=CLIENT) for _ in range(2)]
    with Minutehand("http://api", "key", transport=httpx.MockTransport(script)) as api:
        made = api.clients.register("shop", poller_quota=2, settings=asked)
    assert (made.settings, made.stored_settings) == ({"horizon_days": 30}, {"horizon_days": 730})
    assert json.loads(script.requests[0].content) == {"poller_quota": 2, "settings": asked}

    async def register() -> None:
        async with AsyncMinutehand("http://api", "key", transport=httpx.MockTransport(script)) as api:
            assert await api.clients.register("shop", poller_quota=2, settings=asked) == made

    asyncio.run(register())
    assert script.requests[1].content == script.requests[0].content


NONE = problem(404, {**PROBLEM, "type": "/problems/not-found", "status": 404})
CHANGED = problem(412, {**PROBLEM, "type": "/problems/precondition-failed", "status": 412})


def test_a_client_is_put_as_it_was_seen_or_not_at_all() -> None:
    script = Script(httpx.Response(200, json=CLIENT), CHANGED)
    with script.api() as api:
        api.clients.register("shop", poller_quota=2, revision=7)
        with pytest.raises(PreconditionFailed):
            api.clients.register("shop", poller_quota=2, absent=True)
    seen, absent = script.requests
    assert (seen.headers["If-Match"], absent.headers["If-None-Match"]) == ('"7"', "*")
    assert "If-None-Match" not in seen.headers
    assert "If-Match" not in absent.headers


def test_options_of_the_command_win_over_its_json(script: Script) -> None:
    script.answers = [NONE, httpx.Response(201, json=CLIENT)]
    given = {"horizon_days": 5, "late_policy": {"kind": "skip"}}
    flags = (
        "--poller-quota 1 --horizon-days 9 --create-rate 2.5 --max-in-flight 7 --timeout-seconds 3 --retention-days 1"
    )
    flags += " --payload-bytes 10 --header-bytes 20 --read-consistency LOCAL_ONE --write-consistency EACH_QUORUM"
    assert failures.run(["clients", "register", "shop", "--settings", json.dumps(given), *flags.split()]) == 0
    assert script.sent(-1) == {
        "poller_quota": 1,
        "settings": {
            "horizon_days": 9,
            "late_policy": {"kind": "skip"},
            "create_rate_per_second": 2.5,
            "max_in_flight": 7,
            "timeout_seconds": 3,
            "retention_days": 1,
            "payload_bytes": 10,
            "header_bytes": 20,
            "read_consistency": "LOCAL_ONE",
            "write_consistency": "EACH_QUORUM",
        },
    }
    assert script.requests[-1].headers["If-None-Match"] == "*"


def test_the_command_bases_its_change_on_what_others_changed_meanwhile(script: Script) -> None:
    later = {**CLIENT, "revision": 8, "poller_quota": 3, "stored_settings": {"horizon_days": 9, "timeout_seconds": 4.0}}
    answers = [httpx.Response(200, json=one) for one in (CLIENT, later, later)]
    script.answers = [answers[0], CHANGED, *answers[1:]]
    assert failures.run(["clients", "register", "shop", "--horizon-days", "8"]) == 0
    assert script.sent(-1) == {"poller_quota": 3, "settings": {"horizon_days": 8, "timeout_seconds": 4.0}}
    assert script.requests[-1].headers["If-Match"] == '"8"'
    script.answers = [answers[0], CHANGED] * 5
    assert failures.run(["clients", "register", "shop"]) == 1


def test_a_built_in_clients_quota_is_changed_alone(script: Script) -> None:
    script.answers = [httpx.Response(200, json={**CLIENT, "client_id": "$cron"})] * 2
    assert failures.run(["clients", "register", "$cron", "--poller-quota", "20"]) == 0
    assert script.sent(-1) == {"poller_quota": 20}


async def test_what_the_command_does_not_name_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ApiHarness() as api:
        assert api.server is not None
        url = f"http://127.0.0.1:{api.server.port}"
        monkeypatch.setenv("MINUTEHAND_URL", url)
        monkeypatch.setenv("MINUTEHAND_KEY", ADMIN_KEY)
        async with AsyncMinutehand(url, ADMIN_KEY) as admin:

            async def registered(*options: str) -> dict[str, Any]:
                assert await asyncio.to_thread(failures.run, ["clients", "register", "shop", *options]) == 0
                client = await admin.clients.get("shop")
                return {"quota": client.poller_quota, **client.stored_settings}

            first = await registered("--horizon-days", "30", "--create-rate", "5")
            await admin.client("shop").change_settings({"in_doubt": "drop"})
            changed = await registered("--poller-quota", "2", "--timeout-seconds", "4")
            assert changed == {**first, "quota": 2, "in_doubt": "drop", "timeout_seconds": 4.0}
            reset = await registered("--settings", '{"horizon_days": null, "create_rate_per_second": null}')
            assert reset == {**changed, "horizon_days": 730, "create_rate_per_second": None}


def test_the_operators_bounds_reach_apis_and_nodes() -> None:
    bounds = {"MINUTEHAND_CLIENTS_PAYLOAD_BYTES": "1000", "MINUTEHAND_CLIENTS_WRITE_CONSISTENCY": "LOCAL_QUORUM"}
    settings = load_settings(environment={**ENVIRONMENT, **bounds})
    assert settings.api is not None
    assert settings.api.clients is settings.node.clients
    assert (settings.node.clients.payload_bytes, settings.node.clients.write_consistency) == (1000, "LOCAL_QUORUM")


def test_bounds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"\[clients\] horizon_days: must be from 1 to 3650"):
        load_settings(environment={**ENVIRONMENT, "MINUTEHAND_CLIENTS_HORIZON_DAYS": "9000"})
    with pytest.raises(ConfigurationInvalid, match=r"\[api\] max_connections: must be above 0"):
        load_settings(environment={**ENVIRONMENT, "MINUTEHAND_API_MAX_CONNECTIONS": "0"})
