"""What a soak must show, and the sentences about what it does not."""

from collections.abc import Sequence
from typing import Any

Memory = list[tuple[float, dict[str, float]]]
"""Samples: the part of the time, and MiB by process."""

AT_MOST_LATE_MS = 2_000.0
RESTS = ((0.25, 0.45), (0.7, 1.0))
"""Parts of the time in which memory must not grow: before the restarts, and long after their starts. Their thirds are
whole minutes in a run of a quarter of an hour, or begin at the same second of one, because memory rises and falls with
each minute."""
GROWTH_PART, GROWTH_MB = 0.10, 8.0
"""Memory is flat if it grew by no more than this part of itself, or this many MiB, whichever is more."""
NOT_OURS = ("cassandra",)
"""Reported and not judged: its heap fills up to its bound, and its mapped files are counted too."""


def growth(memory: Memory, name: str) -> list[float | None]:
    """Mean MiB of the first and of the last third of each rest; None where there is no sample."""
    return [
        _mean(memory, name, begin + (finish - begin) * at / 3, begin + (finish - begin) * (at + 1) / 3)
        for begin, finish in RESTS
        for at in (0, 2)
    ]


def _mean(memory: Memory, name: str, begin: float, finish: float) -> float | None:
    found = [sizes[name] for part, sizes in memory if begin <= part <= finish and name in sizes]
    return round(sum(found) / len(found), 1) if found else None


def faults(found: dict[str, Any], *, nodes: Sequence[str]) -> list[str]:
    """Violations, a sentence each; empty when the soak is passed."""
    said = []
    if found["created"] != found["asked"]:
        said.append(f"{found['created']:,} of {found['asked']:,} schedules were created.")
    if found["created_ahead_seconds"] <= 0:
        said.append("Creates fell behind: some were done when the first of them was due already.")
    said += [f"{found[name]:,} calls were {name}." for name in ("lost", "repeated", "early") if found[name]]
    if found["latest_ms"] is None or found["latest_ms"] > AT_MOST_LATE_MS:
        said.append(f"A call was {found['latest_ms']} ms late; at most {AT_MOST_LATE_MS:,.0f} ms are allowed.")
    books = found["books"]
    if not books["accepted"] == books["delivered"] == found["created"]:
        said.append(f"The books do not balance: {found['created']:,} created, {books}.")
    if [one["name"] for one in found["restarts"]] != list(nodes):
        said.append(f"Not every node was restarted: {[one['name'] for one in found['restarts']]}.")
    for one in found["restarts"]:
        if one["exit_code"] != 0:
            said.append(f"{one['name']} ended with code {one['exit_code']} when it was told to stop.")
    said += [f"{name} ended by itself." for name in found["died"]]
    said += [f"The memory of {name} was not measured." for name in nodes if name not in found["memory_mb"]]
    for name, sizes in found["memory_mb"].items():
        if name not in NOT_OURS:
            said += _grown(name, sizes)
    return said


def _grown(name: str, sizes: Sequence[float | None]) -> list[str]:
    said = []
    for when, first, last in (("before", sizes[0], sizes[1]), ("after", sizes[2], sizes[3])):
        if first is None or last is None:
            said.append(f"The memory of {name} was not measured {when} the restarts: the soak is too short.")
        elif last - first > max(GROWTH_MB, first * GROWTH_PART):
            said.append(f"{name} grew {when} the restarts, from {first} to {last} MiB.")
    return said
