"""Small zone files in the compiled form (RFC 9636), for releases of the database that never were."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime


def zone_file(first: int, changes: Sequence[tuple[str, int]] = (), *, rule: str | None = None) -> bytes:
    """A zone with the offset `first` (hours), then those of `changes` from each instant (RFC 3339 without an offset, in
    UTC) on. `rule`: the POSIX rule for what follows; without it the last offset stays."""
    offsets = [first, *(offset for _, offset in changes)]
    kinds = sorted(set(offsets))
    instants = [int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()) for at, _ in changes]
    names = b"AAA\0"
    # Without changes, and before the first one, the first kind holds.
    ordered = [first, *(kind for kind in kinds if kind != first)]
    body = struct.pack(f">{len(instants)}q", *instants) + bytes(ordered.index(offset) for _, offset in changes)
    body += b"".join(struct.pack(">lbb", round(kind * 3600), 0, 0) for kind in ordered) + names
    head = struct.Struct(">4sc15x6l")
    old = head.pack(b"TZif", b"2", 0, 0, 0, 0, 1, len(names)) + struct.pack(">lbb", 0, 0, 0) + names
    new = head.pack(b"TZif", b"2", 0, 0, 0, len(instants), len(ordered), len(names)) + body
    last = rule if rule is not None else _fixed(offsets[-1])
    return old + new + f"\n{last}\n".encode()


def _fixed(offset: float) -> str:
    """The rule of one offset; POSIX counts westwards."""
    minutes = round(abs(offset) * 60)
    return f"<AAA>{'-' if offset > 0 else '+'}{minutes // 60}:{minutes % 60:02}"
