"""BigBen's events, from its tables or its API. Pure.

Objects or rows with `tenant`, `eventTime`, `payload`, and the id that the program gave the event: `xref_id` in its
tables, `id` in its API. `eventId`, where there is neither, is BigBen's own. Where an event goes is said by its tenant's
processor, which is not part of them.
"""

from datetime import UTC, datetime
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, plain_names, records, text_of

WHAT: Final = "events with tenant, xref_id, event_time and payload, as CSV or JSON"
_IDS: Final = ("xrefid", "id", "eventid")


def read_bigben(text: str) -> Found:
    """Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in records(text, WHAT):
        one = plain_names(row)
        tenant, at = one.get("tenant"), _instant(one.get("eventtime"))
        name = next((one[key] for key in _IDS if one.get(key)), None)
        if not tenant or not name or not at:
            faults.append(Fault(place, "needs tenant, xref_id (or id, or eventId) and event_time"))
            continue
        entries.append(
            Entry(
                place=place,
                name=f"{tenant}.{name}",
                parts=(str(tenant), str(name)),
                written=at,
                at=at,
                timezone="UTC",
                payload={"source": "bigben", "tenant": tenant, "eventId": name},
                body=text_of(one.get("payload")),
            )
        )
    return Found(entries, faults)


def _instant(at: Any) -> str | None:
    """An instant as it is written, or as cqlsh writes a timestamp: 2027-02-01 10:00:00.000000+0000."""
    text = str(at or "").strip()
    if " " in text:
        try:
            written = datetime.fromisoformat(text)
        except ValueError:
            return text
        if written.tzinfo is not None:
            return written.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text or None
