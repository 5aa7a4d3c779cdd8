"""A CloudEvent 1.0 as the create of a schedule whose callback is that event. Pure.

Binary mode: attributes are headers `ce_NAME` of the record, its value is the data, its header `content-type` says what
that is. Structured mode: the header `content-type` is `application/cloudevents+json`, the value holds everything.

| extension attribute | meaning |
|---|---|
| `mhop` | `create` (the default), `put` or `cancel` |
| `mhdue`, `mhdelayseconds` | as `due` and `delay_seconds` of a create; without both, the call is due at once |
| `mhkey` | the client's own key, of a put or cancel; the record's key where it is left out |
| `mhurl`, `mhdestination`, `mhpath`, `mhmethod` | where the call goes; without them, to the configured destination |
| `mhlabel`, `mhorderingkey`, `mhlatest`, `mhskipafterseconds` | as the create's fields |

The receiver gets the event as CloudEvents' HTTP binary mode has it: the data as it is, the attributes as headers
`ce-NAME`, without those above. A delay counts from the record's timestamp.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from minutehand.ingest.records import Cancel, Poison, Reading, Record, made_create, own_key, poison, read_document
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.schedule_keys import check_key

STRUCTURED: Final = "application/cloudevents+json"
_BINARY_PREFIX: Final = "ce_"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_TEXTS: Final = {"mhdue": "due", "mhlabel": "label", "mhorderingkey": "ordering_key", "mhlatest": "latest"}
_NUMBERS: Final = {"mhdelayseconds": "delay_seconds", "mhskipafterseconds": "skip_after_seconds"}
_WHERE: Final = {"mhurl": "url", "mhdestination": "destination", "mhpath": "path", "mhmethod": "method"}
_OURS: Final = frozenset({"mhop", "mhkey", *_TEXTS, *_NUMBERS, *_WHERE})
_encode = msgspec.json.encode
_decode_event = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_event(record: Record) -> bool:
    """Whether a record says that it is a CloudEvent. A batch of events is none of ours, and no event either."""
    for name, value in record.headers:
        lowered = name.lower()
        if lowered == f"{_BINARY_PREFIX}specversion":
            return True
        if lowered == "content-type" and (value or b"").lower().startswith(STRUCTURED.encode()):
            return True
    return False


def read_event(record: Record, *, destination: str | None = None) -> Reading:
    """What an event asks for. `destination`: where callbacks go whose event names neither a URL nor a destination."""
    try:
        headers = {name.lower(): (value or b"").decode() for name, value in record.headers}
    except UnicodeDecodeError:
        return poison("a header of the event is not UTF-8")
    if f"{_BINARY_PREFIX}specversion" in headers:
        attributes = {
            name.removeprefix(_BINARY_PREFIX): value
            for name, value in headers.items()
            if name.startswith(_BINARY_PREFIX)
        }
        body, content_type = _base64(record.value), headers.get("content-type")
    else:
        read = _structured(record.value or b"")
        if isinstance(read, Poison):
            return read
        attributes, body, content_type = read
    faults = [FieldError(f"/{name}", "is missing in the event") for name in _REQUIRED if not attributes.get(name)]
    faults += [FieldError(f"/{name}", "is no attribute of ours") for name in attributes if _unknown(name)]
    if not faults and attributes["specversion"] != "1.0":
        faults.append(FieldError("/specversion", "must be 1.0"))
    if faults:
        return Poison(tuple(faults))
    return _asked(record, attributes, body, content_type, destination)


def _asked(
    record: Record,
    attributes: Mapping[str, str],
    body: Mapping[str, msgspec.Raw],
    content_type: str | None,
    destination: str | None,
) -> Reading:
    op = attributes.get("mhop", "create")
    if op not in ("create", "put", "cancel"):
        return poison("must be create, put or cancel", "/mhop")
    key: str | None = None
    if op == "create":
        if "mhkey" in attributes:
            return poison("is for put and cancel", "/mhkey")
    else:
        named = attributes.get("mhkey") or own_key(record)
        if isinstance(named, Poison):
            return named
        if check_key(named):
            return poison(check_key(named)[0].detail, "/mhkey")
        if op == "cancel":
            return Cancel(key=named)
        key = named
    fields = {ours: msgspec.Raw(_encode(attributes[name])) for name, ours in _TEXTS.items() if name in attributes}
    for name, ours in _NUMBERS.items():
        if name in attributes:
            number = _number(attributes[name])
            if number is None:
                return poison("must be a number of seconds", f"/{name}")
            fields[ours] = number
    if "due" not in fields and "delay_seconds" not in fields:
        fields["delay_seconds"] = msgspec.Raw(b"0")
    if key is not None:
        fields["key"] = msgspec.Raw(_encode(key))
    where = {ours: attributes[name] for name, ours in _WHERE.items() if name in attributes}
    if "url" not in where and "destination" not in where and destination is not None:
        where["destination"] = destination
    shown = {f"ce-{name}": quote(value, safe=_PLAIN) for name, value in attributes.items() if name not in _OURS}
    if content_type:
        shown["content-type"] = content_type
    callback = {**{name: msgspec.Raw(_encode(value)) for name, value in where.items()}, **body}
    callback["headers"] = msgspec.Raw(_encode(shown))
    return made_create(record, {**fields, "callback": msgspec.Raw(_encode(callback))}, key)


def _structured(value: bytes) -> tuple[dict[str, str], dict[str, msgspec.Raw], str | None] | Poison:
    """Attributes, body and content type of an event in JSON."""
    try:
        msgspec.json.decode(value)
        fields = _decode_event(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return poison(f"the event is no JSON object: {error}")
    except RecursionError:
        return poison("the event is nested too deeply")
    data, data_base64 = fields.pop("data", None), fields.pop("data_base64", None)
    if data is not None and data_base64 is not None:
        return poison("give at most one of data and data_base64", "/data_base64")
    attributes: dict[str, str] = {}
    for name, raw in fields.items():
        text = _attribute(msgspec.json.decode(raw))
        if text is None:
            return poison("must be a text, a number or a truth value", f"/{name}")
        attributes[name.lower()] = text
    content_type = attributes.pop("datacontenttype", None)
    if data_base64 is not None:
        return attributes, {"body_base64": data_base64}, content_type
    if data is None:
        return attributes, {"body": msgspec.Raw(b'""')}, content_type
    if content_type is None or _is_json(content_type):
        return attributes, {"json": data}, content_type or "application/json"
    decoded = msgspec.json.decode(data)
    if isinstance(decoded, str):
        return attributes, {"body": data}, content_type
    return attributes, {"json": data}, content_type


def _attribute(value: Any) -> str | None:
    """An attribute's value in CloudEvents' canonical form. JSON's null is as good as none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    return "" if value is None else None


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def _base64(value: bytes | None) -> dict[str, msgspec.Raw]:
    return {"body_base64": msgspec.Raw(_encode(base64.b64encode(value or b"").decode()))}


def _unknown(name: str) -> bool:
    """A misspelt attribute of ours would be ignored silently."""
    return name.startswith("mh") and name not in _OURS


def _number(text: str) -> msgspec.Raw | None:
    try:
        msgspec.json.decode(text.encode(), type=float)
    except msgspec.DecodeError:
        return None
    return msgspec.Raw(text.encode())


def read_record(record: Record, *, destination: str | None = None) -> Reading:
    """What a record asks for, in either form."""
    if record.fault is not None:
        return poison(record.fault)
    if record.value is not None and is_event(record):
        return read_event(record, destination=destination)
    return read_document(record)
