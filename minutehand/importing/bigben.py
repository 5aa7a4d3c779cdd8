"""BigBen's events, from its tables or its API. Pure.

Objects or rows with `tenant`, `eventTime`, `payload`, and the id that the program gave the event: `xref_id` in its
tables, `id` in its API. `eventId`, where there is neither, is BigBen's own. Where an event goes is said by its tenant's
processor, which is not part of them.
"""

from datetime import UTC, datetime
from typing import Final

from minutehand.importing.entries import Entry, Fault, Found, plain, records, text_of
from minutehand.importing.shapes import Misfit, Node, entry_of

WHAT: Final = "events with tenant, xref_id, event_time and payload, as CSV or JSON"
_IDS: Final = ("xrefid", "id", "eventid")


def read_bigben(text: str) -> Found:
    """Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in records(text, WHAT, faults):
        try:
            entries.append(_entry(place, entry_of(row.values, form=plain)))
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    return Found(entries, faults)


def _entry(place: str, one: Node) -> Entry:
    """Raises Misfit."""
    tenant, at = one.text("tenant"), _instant(one.text("eventtime"))
    name = next((name for key in _IDS if (name := one.text(key))), None)
    if not tenant or not name or not at:
        raise Misfit("needs tenant, xref_id (or id, or eventId) and event_time")
    return Entry(
        place=place,
        name=f"{tenant}.{name}",
        parts=(tenant, name),
        written=at,
        at=at,
        timezone="UTC",
        payload={"source": "bigben", "tenant": tenant, "eventId": name},
        body=text_of(one.values.get("payload")),
    )


def _instant(at: str | None) -> str | None:
    """An instant as it is written, or as cqlsh writes a timestamp: 2027-02-01 10:00:00.000000+0000."""
    text = (at or "").strip()
    if " " in text:
        try:
            written = datetime.fromisoformat(text)
            if written.tzinfo is not None:
                return written.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        except (ValueError, OverflowError):
            return text
    return text or None
