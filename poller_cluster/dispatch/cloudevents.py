"""The headers of a call that is a CloudEvent 1.0, in the HTTP binding's binary mode. Pure.

The body is the event's data as it is, and its Content-Type says what it is (`datacontenttype`). `ce-id` is the
schedule's id, the same for all attempts, so that repeats are recognised; `ce-time` is the nominal due, `ce-subject` the
client's own key of the schedule.

These headers replace those of the same names that a callback has. Its other headers that begin with `ce-` are sent as
they are: they are extension attributes, or `ce-dataschema`.
"""

import re
from collections.abc import Sequence
from typing import Final

from scheduler_service.domain.destinations import CloudEvents
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.options import Headers

SPEC_VERSION: Final = "1.0"
_NEVER_SENT: Final = "ce-datacontenttype"
"""In binary mode the attribute is the Content-Type."""
_ENCODED = re.compile(r"[^\x21-\x7e]|[\"%]")
"""What a header's value has percent-encoded (HTTP Protocol Binding for CloudEvents, 3.1.3.2)."""


def cloudevents_headers(
    user: Sequence[tuple[str, str]], events: CloudEvents, *, event_id: str, due_ms: int, key: str | None
) -> Headers:
    """The headers of a callback with those of its event."""
    ours = [
        ("ce-specversion", SPEC_VERSION),
        ("ce-id", event_id),
        ("ce-source", _encoded(events.source)),
        ("ce-type", _encoded(events.type)),
        ("ce-time", format_instant(due_ms)),
    ]
    if key is not None:
        ours.append(("ce-subject", _encoded(key)))
    replaced = {_NEVER_SENT, *(name for name, _ in ours)}
    kept = [header for header in user if header[0].lower().replace("_", "-") not in replaced]
    return (*kept, *ours)


def _encoded(value: str) -> str:
    return _ENCODED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), value)
