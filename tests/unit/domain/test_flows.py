"""Which limits a flow key has, where its rows are placed, and how a row carries it."""

import msgspec
import pytest

from scheduler_service.domain.flows import Flow, FlowLimits, FlowRules
from scheduler_service.domain.options import (
    ScheduleOptions,
    decode_options,
    encode_options,
    flow_of,
    pin_of,
    says_flow,
)
from scheduler_service.domain.retry_rows import with_flow

RULES = FlowRules(
    default=FlowLimits(rate=1.0),
    prefixes={"shop-": FlowLimits(parallelism=2), "shop-17": FlowLimits(rate=0.5), "größe": FlowLimits(rate=9)},
)


@pytest.mark.parametrize(
    ("key", "limits"),
    [
        ("customer", FlowLimits(rate=1.0)),
        ("shop", FlowLimits(rate=1.0)),
        ("shop-", FlowLimits(parallelism=2)),
        ("shop-2", FlowLimits(parallelism=2)),
        ("shop-17", FlowLimits(rate=0.5)),
        ("shop-175", FlowLimits(rate=0.5)),
        ("größer", FlowLimits(rate=9)),
    ],
)
def test_the_longest_prefix_wins_as_a_whole(key: str, limits: FlowLimits) -> None:
    assert RULES.of(key) == limits


def test_a_request_overrides_the_rules_one_by_one() -> None:
    assert Flow("shop-2").limits(RULES) == FlowLimits(parallelism=2)
    assert Flow("shop-2", rate=3.0).limits(RULES) == FlowLimits(rate=3.0, parallelism=2)
    assert Flow("shop-2", parallelism=1).limits(RULES) == FlowLimits(parallelism=1)
    assert Flow("shop-2", 3.0, 4).limits(RULES) == FlowLimits(3.0, 4)


def test_without_rules_and_limits_a_key_is_not_limited() -> None:
    assert Flow("any").limits(FlowRules()) == FlowLimits()


@pytest.mark.parametrize("key", ["a", '"flow":', "größe", "x" * 256])
def test_options_carry_the_flow_key(key: str) -> None:
    options = encode_options(ScheduleOptions(timeout_seconds=2, flow=Flow(key, rate=0.5)))
    assert says_flow(options)
    assert flow_of(options) == decode_options(options).flow == Flow(key, rate=0.5)
    assert pin_of(options, "order") == key


def test_options_without_a_flow_key_are_not_decoded_for_it() -> None:
    options = encode_options(ScheduleOptions(timeout_seconds=2))
    assert not says_flow(options)
    assert flow_of(options) is flow_of(None) is flow_of("{}") is None
    assert pin_of(options, "order") == "order"


def test_options_that_can_not_be_decoded_have_no_flow_key() -> None:
    assert flow_of('"flow":') is None
    assert flow_of('{"flow":{"key":1}}') is None


def test_a_flow_key_is_replaced_and_the_other_options_stay() -> None:
    options = encode_options(ScheduleOptions(timeout_seconds=2))
    flowing = with_flow(options, Flow("a", rate=2))
    assert decode_options(flowing) == ScheduleOptions(timeout_seconds=2, flow=Flow("a", rate=2))
    assert decode_options(with_flow(flowing, Flow("b"))).flow == Flow("b")
    assert with_flow(flowing, None) == options
    assert with_flow(options, None) is options


def test_rules_are_written_as_they_are_read() -> None:
    text = msgspec.json.encode(RULES)
    assert msgspec.json.decode(text, type=FlowRules) == RULES
