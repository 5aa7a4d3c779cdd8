"""How much of a limit rows may take up before they are due. Pure.

A claimed row holds its room until it has been called. Lanes don't know of each other's rows: what one of them claims
for later is missing to another one whose row is due now. With a limit of two to a host, and over eight lanes ten calls
a second that took 10 ms each, calls were 30 s late. So rows that are due may take up all of a limit, rows that soon
will be three quarters of it, the others half; of a limit of one nothing is given to rows that are not due.
"""

from scheduler_service.domain.ids import MAX_DUE

DUE, SOON, LATER = 1.0, 0.75, 0.5
"""The parts of a limit."""


def part_for(due_in_ms: int, *, lead_ms: int) -> float:
    """The part of a limit that a row may find taken up, itself included. Soon is within `lead_ms`."""
    if due_in_ms <= 0:
        return DUE
    return SOON if due_in_ms <= lead_ms else LATER


def longest_due_in(part: float, *, lead_ms: int) -> int:
    """How long before their due, in milliseconds, rows may be for `part_for` to say this part."""
    if part == DUE:
        return 0
    return lead_ms if part == SOON else MAX_DUE


def due_within(part: float, *, lead_ms: int, ahead_ms: int) -> int:
    """How far ahead rows may be due that take up `part` of a limit; `ahead_ms` is what holds where there is room."""
    if part <= LATER:
        return ahead_ms
    return min(lead_ms, ahead_ms) if part <= SOON else 0
