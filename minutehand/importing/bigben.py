"""BigBen's events, from its tables. Pure.

Objects or rows with `tenant`, `eventId`, `eventTime` and `payload`. Where an event goes is said by its tenant's
processor, which is not part of them.
"""

from typing import Final

from minutehand.importing.entries import Entry, Fault, Found, plain_names, records, text_of

WHAT: Final = "events with tenant, eventId, eventTime and payload, as CSV or JSON"


def read_bigben(text: str) -> Found:
    """Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in records(text, WHAT):
        one = plain_names(row)
        tenant, name, at = (one.get(key) for key in ("tenant", "eventid", "eventtime"))
        if not tenant or not name or not at:
            faults.append(Fault(place, "needs tenant, eventId and eventTime"))
            continue
        entries.append(
            Entry(
                place=place,
                name=f"{tenant}.{name}",
                written=str(at),
                at=str(at),
                timezone="UTC",
                payload={"source": "bigben", "tenant": tenant, "eventId": name},
                body=text_of(one.get("payload")),
            )
        )
    return Found(entries, faults)
