from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from scheduler_service.api.http.decoding import Body
from scheduler_service.api.pieces import LARGE
from scheduler_service.api.problems import Refusal
from scheduler_service.api.schemas import AdminKeyRequest, BatchRequest, ClientRequest
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.usecases.reconciliations import ReconciliationRequest
from scheduler_service.usecases.schedule_request import ScheduleRequest

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted(
    {
        *("callback", "due", "delay_seconds", "label", "retry", "timeout_seconds", "url", "method", "headers", "body"),
        *("json", "items", "poller_quota", "settings", "late_policy", "kind", "hosts", "name", "final_statuses"),
    }
)
NEARLY = st.recursive(
    ANY_JSON | st.sampled_from(["https://a.example/", "fire", "drop", 1, 0.5, None]),
    lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=20,
)
BODIES: list[Body[Any]] = [Body(type_) for type_ in (ScheduleRequest, BatchRequest, ClientRequest, AdminKeyRequest)]


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1)]
    kind: Literal["a", "b"] = "a"


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    inner: Inner
    many: Annotated[list[Inner], Meta(max_length=2)] = []
    named: Annotated[dict[str, Inner], Meta(max_length=5)] = {}
    pair: Annotated[tuple[Annotated[int, Meta(le=9)], ...], Meta(max_length=5)] = ()
    maybe: Inner | None = None


OUTER = Body(Outer)


def faults(body: object, *rules: FieldError) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        OUTER.decode(msgspec.json.encode(body), lambda outer: rules)
    assert len({error.pointer for error in caught.value.errors}) == len(caught.value.errors)
    return {error.pointer: error.detail for error in caught.value.errors}


@given(NEARLY)
@settings(max_examples=50)
def test_a_body_is_taken_or_explained_and_never_both(value: object) -> None:
    data = msgspec.json.encode(value)
    for body in BODIES:
        try:
            expected: object = msgspec.json.decode(data, type=body.type)
        except msgspec.ValidationError:
            with pytest.raises(Invalid) as caught:
                body.decode(data)
            assert caught.value.errors
            assert all(fault.detail for fault in caught.value.errors)
        else:
            decoded = body.decode(data)
            assert type(decoded) is type(expected)


@given(NEARLY)
@settings(max_examples=50)
def test_the_rules_are_asked_about_values_of_the_right_types(value: object) -> None:
    """Rules need no type checks of their own."""

    def rules(outer: Any) -> list[FieldError]:
        assert msgspec.json.encode(outer)
        for field in msgspec.structs.fields(type(outer)):
            assert hasattr(outer, field.name)
        if isinstance(outer, ScheduleRequest):
            assert isinstance(outer.callback.url, str | None)
            assert isinstance(outer.callback.headers, dict)
            assert all(isinstance(text, str) for text in outer.callback.headers.values())
            assert isinstance(bytes(outer.callback.json), bytes)
        return []

    for body in BODIES:
        try:
            body.decode(msgspec.json.encode(value), rules)
        except Invalid:
            continue


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(data: bytes) -> None:
    for body in BODIES:
        try:
            body.decode(data)
        except (Invalid, Refusal):
            continue


def test_every_fault_has_its_place() -> None:
    wrong = {
        "inner": {"size": 0, "kind": "c", "extra": 1},
        "many": [{"size": "1"}, 5],
        "named": {"a/b": {"size": -1}},
        "pair": [1, 10, "x"],
        "maybe": [],
        "other": None,
    }
    assert faults(wrong) == {
        "/other": "is not a known field; known are name, inner, many, named, pair, maybe",
        "/name": "is required",
        "/inner/extra": "is not a known field; known are size, kind",
        "/inner/size": "must be an integer >= 1",
        "/inner/kind": "must be one of a, b",
        "/many/0/size": "must be an integer, not a string",
        "/many/1": "must be an object, not an integer",
        "/named/a~1b/size": "must be an integer >= 1",
        "/pair/1": "must be an integer <= 9",
        "/pair/2": "must be an integer, not a string",
        "/maybe": "must be an object or null, not an array",
    }


def test_the_length_of_a_list_is_judged_before_its_items() -> None:
    assert faults({"name": "x", "inner": {"size": 1}, "many": [{"size": "1"}] * 3}) == {
        "/many": "must be an array of length <= 2"
    }


def test_rules_are_heard_beside_the_types_but_not_about_what_is_wrong_anyway() -> None:
    heard = faults(
        {"name": 5, "inner": {"size": 1}},
        FieldError("/name", "is empty"),
        FieldError("/name/deeper", "is empty"),
        FieldError("/named", "is empty"),
        FieldError("", "is wrong as a whole"),
    )
    assert heard == {
        "/name": "must be a string, not an integer",
        "/named": "is empty",
        "": "is wrong as a whole",
    }


def test_a_missing_object_is_named_instead_of_its_field() -> None:
    assert faults({"name": "x"}, FieldError("/inner/size", "is too small")) == {"/inner": "is required"}


def test_a_value_that_is_none_of_those_there_are_is_not_repeated() -> None:
    wrong = {"from": "x", "to": "y", "states": ["delivered", "of-a-secret"], "action": "of-a-secret"}
    with pytest.raises(Invalid) as caught:
        Body(ReconciliationRequest).decode(msgspec.json.encode(wrong))
    assert {(fault.pointer, fault.detail) for fault in caught.value.errors} == {
        ("/action", "must be one of report, redeliver, cancel, skip"),
        ("/states/1", "must be one of scheduled, retrying, awaiting, delivered, failed, cancelled, skipped"),
    }


def test_parts_that_are_all_right_are_decoded_together() -> None:
    parts = [msgspec.Raw(msgspec.json.encode({"size": size})) for size in (1, 2, 3)]
    assert Body(Inner).decode_together(parts) == [Inner(1), Inner(2), Inner(3)]


@pytest.mark.parametrize(
    "odd",
    [b'{"size":0}', b'{"size":1,"more":1}', b"[]", b'{"size":1e999}', b"[" * 5000 + b"]" * 5000],
    ids=["wrong", "unknown", "no-object", "too-large", "deep"],
)
def test_decoding_together_gives_up_at_an_invalid_part(odd: bytes) -> None:
    right = msgspec.Raw(b'{"size":1}')
    assert Body(Inner).decode_together([right, msgspec.Raw(odd), right]) is None


def test_parts_that_are_long_together_are_left_to_others() -> None:
    part = msgspec.Raw(b'{"size":' + b" " * (LARGE // 4) + b"1}")
    assert Body(Inner).decode_together([part] * 3) == [Inner(1)] * 3
    assert Body(Inner).decode_together([part] * 4) is None


@given(parts=st.lists(NEARLY | st.builds(lambda size: {"size": size}, st.integers(1, 9)), max_size=5))
def test_decoding_together_equals_decoding_one_by_one(parts: list[object]) -> None:
    encoded = [msgspec.json.encode(part) for part in parts]
    alone = [Body(Inner).decode_if_right(data) for data in encoded]
    expected = None if None in alone else alone
    assert Body(Inner).decode_together([msgspec.Raw(data) for data in encoded]) == expected
