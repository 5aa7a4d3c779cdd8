"""Bounds that an operator sets for clients."""

from dataclasses import fields
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.options import RetryOverride


def client(settings: ClientSettings, *, client_id: str = "shop", quota: int = 3) -> Client:
    return Client(
        client_id=ClientId(client_id),
        poller_quota=quota,
        poller_ceiling=quota,
        state=ClientState.ACTIVE,
        settings=settings,
        revision=1,
        created_at=UnixMillis(0),
    )


STRICT = ClientBounds(
    retry_max_attempts=3,
    retry_base_seconds=1,
    retry_cap_seconds=2,
    timeout_seconds=5,
    max_in_flight=50,
    horizon_days=30,
    payload_bytes=1_000,
    create_rate_per_second=120,
    hosts=0,
    read_consistency="LOCAL_QUORUM",
    write_consistency="LOCAL_QUORUM",
)


def test_everything_that_can_be_set_has_a_bound() -> None:
    settings = {one.name for one in msgspec.structs.fields(ClientSettings)} - {
        "retry",
        "late_policy",
        "in_doubt",
        "flows",
        "receiver_verbs",
        "event_feed",
        "overdue_per_second",
    }
    retry = {f"retry_{one.name}" for one in msgspec.structs.fields(RetrySettings)} - {"retry_final_statuses"}
    assert {one.name for one in fields(ClientBounds)} == settings | retry


def test_without_bounds_of_the_operators_the_largest_settings_are_right() -> None:
    largest = ClientSettings(
        retry=RetrySettings(max_attempts=100, base_seconds=3600, cap_seconds=86_400, deadline_seconds=604_800),
        timeout_seconds=60,
        max_in_flight=10_000,
        horizon_days=3650,
        retention_days=90,
        payload_bytes=1_048_576,
        header_bytes=16_384,
        create_rate_per_second=1_000_000,
        read_consistency="LOCAL_ONE",
        write_consistency="EACH_QUORUM",
    )
    assert ClientBounds().faults(largest, at="/settings") == []
    one = client(largest)
    assert ClientBounds().in_force(one) is one
    for built_in in (largest, ClientSettings()):
        mine = client(built_in, client_id="$cron")
        assert STRICT.in_force(mine) is mine


def test_all_that_is_beyond_a_bound_is_named_at_once() -> None:
    asked = ClientSettings(
        retry=RetrySettings(max_attempts=4, cap_seconds=2.5),
        timeout_seconds=5.5,
        horizon_days=31,
        payload_bytes=1_001,
        create_rate_per_second=121,
        read_consistency="LOCAL_ONE",
        write_consistency="EACH_QUORUM",
    )
    faults = {fault.pointer: fault.detail for fault in STRICT.faults(asked, at="/settings")}
    assert list(faults) == [
        "/settings/retry/max_attempts",
        "/settings/retry/cap_seconds",
        "/settings/timeout_seconds",
        "/settings/horizon_days",
        "/settings/payload_bytes",
        "/settings/create_rate_per_second",
        "/settings/read_consistency",
        "/settings/write_consistency",
    ]
    assert faults["/settings/payload_bytes"] == "must be at most 1000, by the operator's configuration"


def test_a_default_beyond_a_bound_is_the_bound() -> None:
    assert STRICT.faults(ClientSettings(), at="/settings") == []
    settings = STRICT.effective(client(ClientSettings()))
    assert (settings.horizon_days, settings.payload_bytes, settings.timeout_seconds) == (30, 1_000, 5)
    assert (settings.max_in_flight, settings.create_rate_per_second) == (50, 120)
    assert settings.retry == RetrySettings(max_attempts=3, base_seconds=1, cap_seconds=2)


def test_what_follows_from_the_quota_is_bounded_too() -> None:
    assert STRICT.effective(client(ClientSettings(), quota=1)).create_rate_per_second == 100
    assert STRICT.in_force(client(ClientSettings(), quota=1)).settings.create_rate_per_second is None
    assert STRICT.in_force(client(ClientSettings(), quota=2)).settings.create_rate_per_second == 120


@given(
    st.builds(
        RetrySettings,
        max_attempts=st.integers(1, 100),
        base_seconds=st.floats(0.1, 3600),
        cap_seconds=st.floats(0.1, 86_400),
    ),
    st.builds(
        ClientBounds,
        retry_max_attempts=st.integers(1, 100),
        retry_base_seconds=st.floats(0.1, 1),
        retry_cap_seconds=st.floats(1, 86_400),
    ),
)
def test_effective_retries_keep_within_bounds_and_request(retry: RetrySettings, bounds: ClientBounds) -> None:
    found = bounds.effective(client(ClientSettings(retry=retry))).retry
    assert found.max_attempts == min(retry.max_attempts, bounds.retry_max_attempts)
    assert found.cap_seconds == min(retry.cap_seconds, bounds.retry_cap_seconds)
    assert found.base_seconds <= min(retry.base_seconds, bounds.retry_base_seconds)
    assert bounds.faults(ClientSettings(retry=found), at="/settings") == []


def test_what_a_schedule_asks_for_itself_is_bounded() -> None:
    assert STRICT.faults_of_schedule(RetryOverride(max_attempts=3), 5) == []
    assert STRICT.faults_of_schedule(None, None) == []
    faults = STRICT.faults_of_schedule(RetryOverride(max_attempts=4, cap_seconds=3), 6)
    assert [fault.pointer for fault in faults] == ["/timeout_seconds", "/retry/max_attempts", "/retry/cap_seconds"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon_days": 0},
        {"horizon_days": 3651},
        {"payload_bytes": 2_000_000},
        {"create_rate_per_second": 0},
        {"read_consistency": "ALL"},
        {"write_consistency": "LOCAL_ONE"},
        {"retry_base_seconds": 100, "retry_cap_seconds": 10},
        {"hosts": -1},
    ],
)
def test_what_cannot_be_a_bound_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ClientBounds(**wrong)
