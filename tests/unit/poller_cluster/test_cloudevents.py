"""The headers of a CloudEvent."""

import pytest

from poller_cluster.dispatch.cloudevents import cloudevents_headers
from scheduler_service.domain.destinations import CloudEvents

EVENTS = CloudEvents(type="test.order.expired", source="/shop/orders")
OURS = (
    ("ce-specversion", "1.0"),
    ("ce-id", "id-1"),
    ("ce-source", "/shop/orders"),
    ("ce-type", "test.order.expired"),
    ("ce-time", "2026-03-01T10:00:00.250Z"),
)
DUE = 1_772_359_200_250


def headers(*user: tuple[str, str], events: CloudEvents = EVENTS, key: str | None = None) -> tuple[object, ...]:
    return cloudevents_headers(user, events, event_id="id-1", due_ms=DUE, key=key)


def test_the_attributes() -> None:
    assert headers(("Content-Type", "text/plain")) == (("Content-Type", "text/plain"), *OURS)


@pytest.mark.parametrize("name", ["ce-id", "CE-Type", "ce_source", "Ce-SpecVersion", "ce-time", "ce-datacontenttype"])
def test_a_callbacks_own_are_replaced(name: str) -> None:
    assert headers((name, "mine")) == OURS


def test_extensions_are_the_callbacks() -> None:
    own = (("ce-traceparent", "00-1-2-01"), ("ce-dataschema", "https://schemas.test/1"), ("CE-Partitionkey", "7"))
    assert headers(*own) == (*own, *OURS)


def test_the_subject_is_the_key_or_the_callbacks() -> None:
    assert headers(("ce-subject", "mine"), key="order-17") == (*OURS, ("ce-subject", "order-17"))
    assert headers(("ce-subject", "mine")) == (("ce-subject", "mine"), *OURS)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("a b", "a%20b"),
        ('"', "%22"),
        ("100%", "100%25"),
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ("!#$&'()*+,-./:;<=>?@[\\]^_`{|}~", "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
        ("\x00\x1f\x7f\r\n", "%00%1F%7F%0D%0A"),
        ("\xa0", "%C2%A0"),
    ],
)
def test_values_are_percent_encoded(text: str, encoded: str) -> None:
    """As in the HTTP binding, section 3.1.3.2 and its example."""
    assert dict(headers(key=text))["ce-subject"] == encoded  # type: ignore[call-overload]
    made = dict(headers(events=CloudEvents(type=text, source=text)))  # type: ignore[call-overload]
    assert (made["ce-type"], made["ce-source"]) == (encoded, encoded)
