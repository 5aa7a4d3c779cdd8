from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.instants import format_instant, parse_instant

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-21T09:30:15Z", 1_795_253_415_000),
        ("2026-11-21t09:30:15z", 1_795_253_415_000),
        ("2026-11-21T10:30:15.25+01:00", 1_795_253_415_250),
        ("2026-11-21T04:00:15.25-05:30", 1_795_253_415_250),
        ("2026-11-21T09:30:15.250Z", 1_795_253_415_250),
        ("2024-02-29T00:00:00-00:00", 1_709_164_800_000),
    ],
)
def test_reads_what_rfc_3339_allows(text: str, instant: int) -> None:
    assert parse_instant(text) == instant


@pytest.mark.parametrize("fraction", ["0001", "000000001", "00000000000000000000000000000001"])
def test_a_fraction_of_a_millisecond_is_rounded_up(fraction: str) -> None:
    assert parse_instant(f"2026-11-21T09:30:15.{fraction}Z") == 1_795_253_415_001


def test_rounding_up_carries_into_the_next_second() -> None:
    assert parse_instant("2026-11-21T09:59:59.9999Z") == parse_instant("2026-11-21T10:00:00Z")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2026-11-21",
        "2026-11-21T09:30Z",
        "2026-11-21T09:30:15",
        "2026-11-21 09:30:15Z",
        "2026-11-21T09:30:15.Z",
        "2026-11-21T09:30:15+0100",
        "2026-11-21T09:30:15+24:00",
        "2026-11-21T09:30:15+01:60",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "2026-11-21T09:30:15Z\n",
        "２０２６-11-21T09:30:15Z",
        "1795253415",
    ],
)
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|no instant"):
        parse_instant(text)


@given(st.integers(0, 253_402_300_799_999), st.integers(-1439, 1439))
def test_reads_back_what_it_wrote_at_any_offset(instant: int, offset_minutes: int) -> None:
    assert parse_instant(format_instant(instant)) == instant
    if DAY < instant < 253_402_300_799_999 - DAY:
        zone = timezone(timedelta(minutes=offset_minutes))
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)).astimezone(zone)
        assert parse_instant(local.isoformat(timespec="milliseconds")) == instant


def test_writes_milliseconds_always() -> None:
    assert format_instant(1_795_253_415_000) == "2026-11-21T09:30:15.000Z"
    assert format_instant(1_795_253_415_007) == "2026-11-21T09:30:15.007Z"
