import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.clients import LatePolicy, RetrySettings
from scheduler_service.domain.options import (
    NO_OPTIONS,
    RetryOverride,
    ScheduleOptions,
    Undecodable,
    decode_headers,
    decode_options,
    encode_headers,
    encode_options,
)
from scheduler_service.domain.retry_rows import MARK_IN_DOUBT


@pytest.mark.parametrize(
    "options",
    [
        NO_OPTIONS,
        ScheduleOptions(timeout_seconds=2.5),
        ScheduleOptions(skip_after_seconds=0.0),
        ScheduleOptions(retry=RetryOverride(max_attempts=1, final_statuses=())),
        ScheduleOptions(in_doubt=True),
    ],
)
def test_options_survive_storage(options: ScheduleOptions) -> None:
    assert decode_options(encode_options(options)) == options


def test_what_was_not_asked_for_is_not_stored() -> None:
    assert encode_options(NO_OPTIONS) == "{}"
    assert encode_options(ScheduleOptions(retry=RetryOverride(max_attempts=3))) == '{"retry":{"max_attempts":3}}'


def test_the_mark_that_retry_rows_carry_is_read() -> None:
    assert decode_options(f'{{"{MARK_IN_DOUBT}":true}}').in_doubt


def test_options_of_a_newer_program_are_passed_over() -> None:
    assert decode_options('{"timeout_seconds":3,"colour":"red"}') == ScheduleOptions(timeout_seconds=3)


@given(st.lists(st.tuples(st.text(), st.text())))
def test_headers_survive_storage_in_their_order(headers: list[tuple[str, str]]) -> None:
    assert decode_headers(encode_headers(headers)) == tuple(headers)


@pytest.mark.parametrize("text", ["{", "[]", '{"retry":5}', '"x"', "[" * 100_000])
def test_options_that_cannot_be_read_say_so(text: str) -> None:
    with pytest.raises(Undecodable, match="options"):
        decode_options(text)


@pytest.mark.parametrize("text", ["{", "{}", '[["a"]]', '[["a",1]]', "[" * 100_000])
def test_headers_that_cannot_be_read_say_so(text: str) -> None:
    with pytest.raises(Undecodable, match="headers"):
        decode_headers(text)


def test_an_override_replaces_what_it_names_and_nothing_else() -> None:
    settings = RetrySettings(max_attempts=7, cap_seconds=100)
    asked = ScheduleOptions(retry=RetryOverride(max_attempts=2, final_statuses=(404, 410)))
    assert asked.retry_settings(settings) == RetrySettings(max_attempts=2, cap_seconds=100, final_statuses=(404, 410))
    assert NO_OPTIONS.retry_settings(settings) is settings


def test_a_schedule_says_when_to_skip_before_its_client_does() -> None:
    skip = LatePolicy(kind="skip", after_seconds=30)
    assert ScheduleOptions(skip_after_seconds=0.5).skip_after_ms(skip) == 500
    assert ScheduleOptions(skip_after_seconds=0).skip_after_ms(LatePolicy()) == 0
    assert NO_OPTIONS.skip_after_ms(skip) == 30_000
    assert NO_OPTIONS.skip_after_ms(LatePolicy(after_seconds=30)) is None
