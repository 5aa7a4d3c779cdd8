"""What records ask for."""

import base64
from typing import Any

import msgspec
import pytest

from minutehand.ingest.cloud_events import read_record
from minutehand.ingest.records import Cancel, Create, Poison, Record
from minutehand.ingest.schema import record_schema
from scheduler_service.domain.instants import format_instant
from tests.support.api import NOW, callback

EVENT = {"specversion": "1.0", "id": "7", "source": "/orders", "type": "placed"}


def record(value: bytes | None, **fields: Any) -> Record:
    return Record(
        **{"topic": "t", "partition": 0, "offset": 5, "timestamp": NOW, "key": None, "value": value, **fields}
    )


def document(**fields: Any) -> bytes:
    return msgspec.json.encode({"callback": callback(), **fields})


def item(reading: object) -> dict[str, Any]:
    assert isinstance(reading, Create), reading
    return dict(msgspec.json.decode(reading.json()))


def pointers(reading: object) -> list[str]:
    assert isinstance(reading, Poison), reading
    return [fault.pointer for fault in reading.faults]


def test_a_create_is_passed_on_byte_for_byte() -> None:
    value = b'{"op": "create", "due": "2027-01-01T00:00:00Z", "callback": {"json": {"b" : 1,  "a": 1e2}, "url": "u"}}'
    reading = read_record(record(value))
    assert isinstance(reading, Create)
    assert reading.json() == (b'{"due":"2027-01-01T00:00:00Z","callback":{"json": {"b" : 1,  "a": 1e2}, "url": "u"}}')
    assert (reading.due, reading.key) == (1798761600000, None)
    assert reading.json(moved_to=NOW).startswith(b'{"due":"2026-11-21T09:30:00.000Z"')


def test_a_delay_counts_from_the_records_timestamp() -> None:
    reading = read_record(record(document(delay_seconds=1.5)))
    assert item(reading) == {"callback": callback(), "due": format_instant(NOW + 1500)}
    assert pointers(read_record(record(document(delay_seconds=1), timestamp=None))) == ["/delay_seconds"]


@pytest.mark.parametrize("delay", [-1, "x", True, 1e300, None])
def test_a_delay_that_can_not_be_is_left_to_the_api(delay: object) -> None:
    assert item(read_record(record(document(delay_seconds=delay))))["delay_seconds"] == delay


def test_local_times_are_instants() -> None:
    due = {"local": "2027-01-01T01:00", "timezone": "Europe/Berlin"}
    reading = read_record(record(document(due=due)))
    assert isinstance(reading, Create)
    assert reading.due == 1798761600000
    assert item(reading)["due"] == due


@pytest.mark.parametrize("due", ["yesterday", 5, {"local": "x", "timezone": "y"}, None])
def test_a_due_that_can_not_be_is_left_to_the_api(due: object) -> None:
    reading = read_record(record(document(due=due)))
    assert isinstance(reading, Create)
    assert reading.due is None


def test_puts_take_the_key_of_the_document_or_the_records() -> None:
    for reading in (
        read_record(record(document(op="put", key="k", due="2027-01-01T00:00:00Z"), key=b"other")),
        read_record(record(document(op="put", due="2027-01-01T00:00:00Z"), key=b"k")),
    ):
        assert item(reading)["key"] == "k"
        assert isinstance(reading, Create)
        assert reading.key == "k"
    assert pointers(read_record(record(document(op="put")))) == ["/key"]
    assert pointers(read_record(record(document(op="put"), key=b"\xff"))) == ["/key"]
    assert pointers(read_record(record(document(op="put"), key=b"a b"))) == ["/key"]
    assert pointers(read_record(record(document(key="k")))) == ["/key"]


def test_cancels() -> None:
    assert read_record(record(b'{"op":"cancel","key":"k"}')) == Cancel(key="k")
    assert read_record(record(b'{"op":"cancel","schedule_id":"s"}')) == Cancel(schedule_id="s")
    assert read_record(record(b'{"op":"cancel"}', key=b"k")) == Cancel(key="k")
    assert read_record(record(None, key=b"k")) == Cancel(key="k", tombstone=True)
    assert pointers(read_record(record(None))) == [""]
    assert pointers(read_record(record(b'{"op":"cancel"}'))) == ["/key"]
    assert pointers(read_record(record(b'{"op":"cancel","key":"k","schedule_id":"s"}'))) == ["/schedule_id"]
    assert pointers(read_record(record(b'{"op":"cancel","key":"k","due":1,"x":2}'))) == ["/due", "/x"]
    assert pointers(read_record(record(b'{"op":"cancel","key":1}'))) == ["/key"]
    assert pointers(read_record(record(b'{"op":"cancel","key":"a b"}'))) == ["/key"]
    assert pointers(read_record(record(b'{"op":"cancel","schedule_id":7}'))) == ["/schedule_id"]


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"7", b'{"a":"\xff"}', b"[" * 100_000, b'{"a":1}{', b'{"a":NaN}', b"\x00\x01"]
)
def test_what_is_no_document(value: bytes) -> None:
    assert pointers(read_record(record(value))) == [""]


@pytest.mark.parametrize("op", ["delete", 7, None, []])
def test_an_unknown_op(op: object) -> None:
    assert pointers(read_record(record(document(op=op)))) == ["/op"]


def binary(data: bytes | None, *, content_type: str | None = "text/plain", **attributes: str) -> Record:
    headers = [(f"ce_{name}", value.encode()) for name, value in {**EVENT, **attributes}.items()]
    if content_type is not None:
        headers.append(("content-type", content_type.encode()))
    return record(data, headers=tuple(headers))


def test_an_event_in_binary_mode() -> None:
    reading = read_record(binary(b"\x00data", mhurl="https://a.example/", mhdelayseconds="2", subject='ü "1"'))
    assert item(reading) == {
        "due": format_instant(NOW + 2000),
        "callback": {
            "url": "https://a.example/",
            "body_base64": base64.b64encode(b"\x00data").decode(),
            "headers": {
                "ce-specversion": "1.0",
                "ce-id": "7",
                "ce-source": "/orders",
                "ce-type": "placed",
                "ce-subject": "%C3%BC%20%221%22",
                "content-type": "text/plain",
            },
        },
    }


def structured(**fields: Any) -> Record:
    headers = (("Content-Type", b"application/cloudevents+json; charset=utf-8"),)
    return record(msgspec.json.encode({**EVENT, **fields}), headers=headers)


@pytest.mark.parametrize(
    ("given", "body"),
    [
        ({"data": {"n": 1}}, {"json": {"n": 1}}),
        ({"data": "text", "datacontenttype": "text/plain"}, {"body": "text"}),
        ({"data": "text"}, {"json": "text"}),
        ({"data_base64": "AAE=", "datacontenttype": "a/b"}, {"body_base64": "AAE="}),
        ({}, {"body": ""}),
    ],
)
def test_an_event_in_structured_mode(given: dict[str, Any], body: dict[str, Any]) -> None:
    reading = read_record(structured(mhdestination="d", mhpath="/p", count=3, flag=True, **given))
    asked = item(reading)["callback"]
    headers = asked.pop("headers")
    assert asked == {"destination": "d", "path": "/p", **body}
    assert (headers["ce-count"], headers["ce-flag"]) == ("3", "true")
    assert headers.get("content-type") == given.get("datacontenttype", "application/json" if "data" in given else None)


def test_an_event_without_target_goes_to_the_configured_destination() -> None:
    assert item(read_record(binary(b""), destination="d"))["callback"]["destination"] == "d"
    assert item(read_record(binary(b"", mhurl="u"), destination="d"))["callback"]["url"] == "u"
    assert item(read_record(binary(b"")))["due"] == format_instant(NOW), "at once, where nothing is said"


def test_events_put_and_cancel() -> None:
    reading = read_record(binary(b"", mhop="put", mhkey="k", mhdue="2027-01-01T00:00:00Z", mhurl="u"))
    assert item(reading)["key"] == "k"
    assert read_record(binary(b"", mhop="cancel", mhkey="k")) == Cancel(key="k")
    assert pointers(read_record(binary(b"", mhop="cancel"))) == ["/key"]
    assert pointers(read_record(binary(b"", mhop="put", mhkey="a b"))) == ["/mhkey"]
    assert pointers(read_record(binary(b"", mhkey="k"))) == ["/mhkey"]
    assert pointers(read_record(binary(b"", mhop="x"))) == ["/mhop"]


def test_faults_of_events() -> None:
    assert pointers(read_record(binary(b"", id="", type=""))) == ["/id", "/type"]
    assert pointers(read_record(binary(b"", specversion="0.3"))) == ["/specversion"]
    assert pointers(read_record(binary(b"", mhdeu="x"))) == ["/mhdeu"]
    assert pointers(read_record(binary(b"", mhdelayseconds="soon"))) == ["/mhdelayseconds"]
    assert pointers(read_record(structured(data=1, data_base64="AA=="))) == ["/data_base64"]
    assert pointers(read_record(structured(nested={"a": 1}))) == ["/nested"]
    bad = (("content-type", b"application/cloudevents+json"),)
    for value in (b"{", b"[" * 100_000, b"[]"):
        assert pointers(read_record(record(value, headers=bad))) == [""]
    assert pointers(read_record(record(b"", headers=(("ce_specversion", b"1.0"), ("ce_id", b"\xff"))))) == [""]


def test_a_tombstone_is_no_event() -> None:
    assert read_record(record(None, key=b"k", headers=(("ce_specversion", b"1.0"),))) == Cancel("k", tombstone=True)


def test_the_schema_refers_only_to_what_it_has() -> None:
    schema = record_schema()
    referred = {text for text in msgspec.json.encode(schema).decode().split('"') if text.startswith("#/$defs/")}
    assert referred <= {f"#/$defs/{name}" for name in schema["$defs"]}
    assert "key" not in schema["$defs"]["create"]["properties"]
