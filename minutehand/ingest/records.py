"""What a record of a topic asks for: a create, a cancel, or nothing that can be understood. Pure.

    {"op": "create", "due": "2027-03-01T09:00:00Z", "callback": {"url": "https://…", "json": {"order": 17}}}
    {"op": "put", "key": "order-17", "delay_seconds": 60, "callback": {…}}        of one key, only the last is called
    {"op": "cancel", "key": "order-17"}                                           or "schedule_id"

Beside `op`, which is `create` where it is left out, the document is the body of the API's create, byte for byte. A put
or cancel without a `key` takes the record's own. A record without a value (a tombstone) cancels what its key names. A
record that is a CloudEvent is read by `cloud_events`.

A delay counts from the record's timestamp, so that the due does not depend on when the record is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec

from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.instants import LAST_INSTANT, format_instant
from scheduler_service.domain.schedule_keys import check_key
from scheduler_service.usecases.schedule_request import LocalTime, named_instant

OPS: Final = ("create", "put", "cancel")
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_due = msgspec.json.Decoder(str | LocalTime).decode
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was consumed. `timestamp`: Unix milliseconds, None where the broker gives none. `fault`: why it
    can't be read; what could not be read of it is left out."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    fault: str | None = None

    @property
    def size(self) -> int:
        """Bytes that it holds in memory, about."""
        fields = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + fields + 200


@dataclass(frozen=True, slots=True)
class Create:
    """One item of the API's batch: its fields, each as JSON. `due`: the instant that it names, if it names one; `key`:
    the client's own, of a put."""

    fields: Mapping[str, msgspec.Raw]
    due: int | None
    key: str | None = None

    @property
    def size(self) -> int:
        """Bytes of its JSON, about."""
        return sum(len(name) + len(bytes(value)) + 4 for name, value in self.fields.items())

    def json(self, *, moved_to: int | None = None) -> bytes:
        """The item as JSON: the same bytes for the same record, in every version. `moved_to`: due then instead."""
        if moved_to is None:
            return _encode(self.fields)
        return _encode({**self.fields, "due": msgspec.Raw(_encode(format_instant(moved_to)))})


class Cancel(NamedTuple):
    """Exactly one of `key` and `schedule_id` is given. A tombstone may name nothing that waits."""

    key: str | None = None
    schedule_id: str | None = None
    tombstone: bool = False


class Poison(NamedTuple):
    """Nothing that could ever be asked of the API, and why. Pointers lead into the document."""

    faults: tuple[FieldError, ...]


Reading: TypeAlias = Create | Cancel | Poison


def poison(detail: str, pointer: str = "") -> Poison:
    return Poison((FieldError(pointer, detail),))


def read_document(record: Record) -> Reading:
    """What a record asks for that is no CloudEvent."""
    if record.value is None:
        return _tombstone(record)
    try:
        # Decoded as a whole too, because raw fields are not looked into, and one broken item spoils its batch.
        msgspec.json.decode(record.value)
        fields = _decode_fields(record.value)
    except msgspec.ValidationError:
        return poison("the value is JSON, but no object")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return poison(f"the value is no JSON: {error}")
    except RecursionError:
        return poison("the value is nested too deeply")
    op = _text(fields.pop("op", None), default="create")
    match op:
        case "create":
            if "key" in fields:
                return poison("is for op put, or left out", "/key")
            return made_create(record, fields)
        case "put":
            return _put(record, fields)
        case "cancel":
            return _cancel(record, fields)
        case _:
            return poison(f"must be one of {', '.join(OPS)}", "/op")


def made_create(record: Record, fields: dict[str, msgspec.Raw], key: str | None = None) -> Create | Poison:
    """The create of these fields of the API's body, with a delay turned into a due."""
    if "delay_seconds" in fields and "due" not in fields:
        delay = _delay_ms(fields["delay_seconds"])
        if delay is not None and record.timestamp is None:
            return poison("needs a record with a timestamp: a delay counts from it", "/delay_seconds")
        if delay is not None and record.timestamp is not None and record.timestamp + delay <= LAST_INSTANT:
            due = msgspec.Raw(_encode(format_instant(record.timestamp + delay)))
            fields = {name: value for name, value in fields.items() if name != "delay_seconds"} | {"due": due}
    return Create(fields, _due_ms(fields.get("due")), key)


def _tombstone(record: Record) -> Cancel | Poison:
    key = own_key(record)
    if isinstance(key, Poison):
        return poison("neither value nor key: there is nothing to cancel") if record.key is None else key
    return Cancel(key=key, tombstone=True)


def _put(record: Record, fields: dict[str, msgspec.Raw]) -> Create | Poison:
    if "key" in fields:
        key = _text(fields["key"])
        # What is no text is refused by the API, as any field of a wrong type is.
        return made_create(record, fields, key)
    named = own_key(record)
    if isinstance(named, Poison):
        return named
    return made_create(record, {**fields, "key": msgspec.Raw(_encode(named))}, named)


def _cancel(record: Record, fields: Mapping[str, msgspec.Raw]) -> Cancel | Poison:
    unknown = [
        FieldError(f"/{name}", "is no field of a cancel") for name in fields if name not in ("key", "schedule_id")
    ]
    if unknown:
        return Poison(tuple(unknown))
    if len(fields) == 2:
        return poison("give exactly one of key and schedule_id; both are given", "/schedule_id")
    if "schedule_id" in fields:
        schedule_id = _text(fields["schedule_id"])
        return poison("must be a text", "/schedule_id") if not schedule_id else Cancel(schedule_id=schedule_id)
    if "key" in fields:
        key = _text(fields["key"])
        if key is None:
            return poison("must be a text", "/key")
        faults = check_key(key)
        return Poison(tuple(faults)) if faults else Cancel(key=key)
    named = own_key(record)
    return named if isinstance(named, Poison) else Cancel(key=named)


def own_key(record: Record) -> str | Poison:
    """The record's key as the client's own key of a schedule."""
    if record.key is None:
        return poison("give a key, in the document or as the record's own", "/key")
    try:
        key = record.key.decode()
    except UnicodeDecodeError:
        return poison("the record's key is not UTF-8", "/key")
    faults = check_key(key)
    return Poison(tuple(faults)) if faults else key


def _text(raw: msgspec.Raw | None, default: str | None = None) -> str | None:
    if raw is None:
        return default
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return None


def _delay_ms(raw: msgspec.Raw) -> int | None:
    """Milliseconds, rounded up so that nothing is early. None: the API shall refuse it."""
    try:
        seconds = msgspec.json.decode(raw, type=float)
    except msgspec.DecodeError:
        return None
    return -int(-seconds * 1000 // 1) if 0 <= seconds * 1000 <= LAST_INSTANT else None


def _due_ms(raw: msgspec.Raw | None) -> int | None:
    """The instant of a due. None where there is none, or none that the API would take."""
    if raw is None:
        return None
    try:
        return named_instant(_decode_due(raw), [])
    except (msgspec.DecodeError, OverflowError):
        return None
