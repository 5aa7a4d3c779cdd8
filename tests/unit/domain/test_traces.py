"""Which headers of traces are heeded, and which schedules are traced."""

from uuid import UUID

import pytest

from scheduler_service.domain.options import ScheduleOptions, decode_options, encode_options, with_trace
from scheduler_service.domain.traces import (
    MAX_STATE,
    MAX_STATE_MEMBERS,
    NOT_SAMPLED,
    Sampling,
    TraceMark,
    cron_key,
    own_context,
    read_traceparent,
    read_tracestate,
    traceparent,
)
from scheduler_service.runtime.tracing import SpanContext

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{CALLER}-01"
IDS = [UUID(int=number) for number in range(2_000)]


def test_a_traceparent_is_read() -> None:
    read = read_traceparent(SAMPLED, "vendor=opaque")
    assert read == (SpanContext(int(TRACE, 16), int(CALLER, 16)), True, "vendor=opaque")
    assert traceparent(read.context) == SAMPLED


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_one_flag_says_sampled(flags: str, sampled: bool) -> None:
    read = read_traceparent(f"00-{TRACE}-{CALLER}-{flags}", None)
    assert read is not None
    assert read.sampled is sampled


@pytest.mark.parametrize("parent", [f"01-{TRACE}-{CALLER}-01", f"cc-{TRACE}-{CALLER}-01-more-of-it"])
def test_later_versions_are_read_as_far_as_they_are_known(parent: str) -> None:
    assert read_traceparent(parent, None) == read_traceparent(SAMPLED, None)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "the-client's-own",
        SAMPLED[:-1],
        f"{SAMPLED}0",
        f"{SAMPLED}-more",
        f"{SAMPLED}\n",
        f" {SAMPLED}",
        SAMPLED + "-" + "0" * 10_000,
        f"ff-{TRACE}-{CALLER}-01",
        f"00-{TRACE.upper()}-{CALLER}-01",
        f"00-{'0' * 32}-{CALLER}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{CALLER}-0g",
        f"cc-{TRACE}-{CALLER}-01more",
    ],
)
def test_a_malformed_traceparent_is_ignored(parent: str) -> None:
    assert read_traceparent(parent, "vendor=opaque") is None


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (None, ""),
        ("", ""),
        (" a=1 ,,\tb=2", "a=1,b=2"),
        ("shop@vendor=x y", "shop@vendor=x y"),
        ("A=1", ""),
        ("a", ""),
        ("a=", ""),
        ("a=1=2", ""),
        ("a=\x1f", ""),
        ("a=ü", ""),
        ("a=1\r\nX-Injected: 1", ""),
        (f"{'k' * 256}=1", f"{'k' * 256}=1"),
        (f"{'k' * 257}=1", ""),
        (f"a={'v' * 256}", f"a={'v' * 256}"),
        (f"a={'v' * 257}", ""),
    ],
)
def test_a_tracestate_is_passed_on_whole_or_not_at_all(state: str | None, kept: str) -> None:
    assert read_tracestate(state) == kept


def test_a_tracestate_has_bounds() -> None:
    longest = f"a={'v' * 252},b={'v' * (MAX_STATE - 257)}"
    assert len(longest) == MAX_STATE
    assert read_tracestate(longest) == longest
    assert read_tracestate(f"{longest} ") == ""
    most = [f"k{number}=1" for number in range(MAX_STATE_MEMBERS)]
    assert read_tracestate(",".join(most)) == ",".join(most)
    assert read_tracestate(",".join([*most, "more=1"])) == ""


def test_nothing_is_sampled_of_itself_by_default() -> None:
    assert not any(NOT_SAMPLED.of(one, None) for one in IDS)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1.0])
def test_the_ratio_is_the_share_of_schedules_that_begin_a_trace(ratio: float) -> None:
    taken = sum(Sampling(ratio=ratio).of(one, None) is not None for one in IDS)
    assert taken == pytest.approx(ratio * len(IDS), abs=0.05 * len(IDS) * (0 < ratio < 1))


def test_a_higher_ratio_takes_what_a_lower_one_takes() -> None:
    few, many = ({one for one in IDS if Sampling(ratio=ratio).of(one, None) is not None} for ratio in (0.1, 0.5))
    assert few < many


def test_every_process_derives_the_same_trace_from_the_id() -> None:
    trace = Sampling(ratio=1.0).of(IDS[1], None)
    assert trace == (*own_context(IDS[1]), "", None)
    assert len({own_context(one) for one in IDS}) == len(IDS)


def test_a_fire_begins_a_trace_that_is_linked_to_its_expansion() -> None:
    key = cron_key("shop", "nightly")
    of = Sampling(ratio=1.0).of
    first, second = of(IDS[1], None, key), of(IDS[2], None, key)
    assert first is not None
    assert first.expansion is not None
    assert second is not None
    assert second.expansion is not None
    assert (first.create, first.expansion.trace_id) == (None, second.expansion.trace_id)
    assert first.expansion.span_id != second.expansion.span_id
    for other in (cron_key("shop", "hourly"), cron_key("mall", "nightly")):
        trace = of(IDS[1], None, other)
        assert trace is not None
        assert trace.expansion is not None
        assert trace.expansion.trace_id != first.expansion.trace_id


@pytest.mark.parametrize(
    ("sampling", "flags", "marked"),
    [
        (Sampling(), "01", True),
        (Sampling(), "00", False),
        (Sampling(ratio=1.0), "00", False),
        (Sampling(follow=False), "01", False),
        (Sampling(ratio=1.0, follow=False), "00", True),
    ],
)
def test_the_flag_decides_what_is_stored_or_else_the_ratio(sampling: Sampling, flags: str, marked: bool) -> None:
    mark = sampling.mark(read_traceparent(f"00-{TRACE}-{CALLER}-{flags}", "a=1"))
    assert mark == (TraceMark(TRACE, "a=1") if marked else None)


def test_without_a_trace_there_is_nothing_to_store() -> None:
    assert Sampling(ratio=1.0).mark(None) is None


def test_a_stored_trace_is_followed_whatever_the_ratio() -> None:
    trace = NOT_SAMPLED.of(IDS[1], TraceMark(TRACE, "a=1"), cron_key("shop", "nightly"))
    assert trace == (int(TRACE, 16), own_context(IDS[1]).span_id, "a=1", None)


@pytest.mark.parametrize("stored", ["", "0" * 32, TRACE[:-1], f"{TRACE}0", TRACE.upper(), f"0x{TRACE[2:]}", "nonsense"])
def test_a_stored_id_that_cant_be_read_is_no_trace(stored: str) -> None:
    assert Sampling(ratio=1.0).of(IDS[1], TraceMark(stored)) is None


@pytest.mark.parametrize("options", [ScheduleOptions(), ScheduleOptions(timeout_seconds=2.0)])
def test_a_mark_is_added_to_options_as_they_are_stored(options: ScheduleOptions) -> None:
    stored = with_trace(encode_options(options), TraceMark(TRACE, 'a="1"'))
    assert decode_options(stored) == ScheduleOptions(
        timeout_seconds=options.timeout_seconds, trace=TraceMark(TRACE, 'a="1"')
    )
