"""Judges a long run stage by stage: how late its calls were, which were repeated, and whether those were in doubt.

A stage lasts from one act upon the deployment (a kill, a restart, an outage) to the next. A call belongs to the stage
in which it was due, a repetition to the stage whose act explains it. A call that is not sent when the next act happens
may be as late as that act allows: one due just before its owner is killed waits for a takeover like one due just after.
An act that may leave rows in doubt says which: the pollers whose owner it disturbed, and the interval in which a call
that arrived may not have been recorded.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from scheduler_service.domain.ids import poller_of

Call = dict[str, Any]

RECORDED_WITHIN_SECONDS = 3.0
"""An attempt's outcome is recorded this long after its call, on a busy machine: older calls are not in doubt."""
ARRIVES_WITHIN_SECONDS = 1.0
"""The receiver has what a killed process sent within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Calls for `pollers` that arrived in [start, end], Unix seconds, may be repeated."""

    pollers: frozenset[int]
    start: float
    end: float

    def covers(self, call: Call) -> bool:
        return self.start <= call["arrived"] <= self.end and poller_of(UUID(call["id"])) in self.pollers


@dataclass(slots=True, kw_only=True)
class Stage:
    """One stage, in Unix seconds; `end` is infinite for the last one. `at_most_late`: the greatest lateness allowed, in
    seconds.
    """

    name: str
    at_most_late: float
    start: float
    end: float = float("inf")
    doubts: list[Doubt] = field(default_factory=list)

    def doubt(self, pollers: Collection[int], *, since: float, until: float) -> None:
        """Allow repetitions of what the owner of `pollers` sent from `since` to `until`: it may not be recorded."""
        self.doubts.append(
            Doubt(
                pollers=frozenset(pollers),
                start=since - RECORDED_WITHIN_SECONDS,
                end=until + ARRIVES_WITHIN_SECONDS,
            )
        )

    def doubt_thawed(self, pollers: Collection[int], *, at: float) -> None:
        """Allow repetitions of what a frozen owner of `pollers` sends when it is resumed, at `at`."""
        self.doubts.append(Doubt(pollers=frozenset(pollers), start=at, end=at + ARRIVES_WITHIN_SECONDS))

    def has(self, instant: float) -> bool:
        return self.start <= instant < self.end

    def explains(self, call: Call) -> bool:
        """Whether this stage's act has left the call in doubt."""
        return any(doubt.covers(call) for doubt in self.doubts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The result of one stage. Lateness in seconds, of first attempts, from due to first arrival."""

    stage: Stage
    calls: int
    latest: float
    repeats: int

    def __str__(self) -> str:
        return (
            f"{self.stage.name:<28} {self.calls:>5} calls, at most {self.latest:6.3f} s late "
            f"(bound {self.stage.at_most_late:g} s), {self.repeats} repeated in doubt"
        )


class Stages:
    """The stages of one run, in order.

    `punctual`: the ids whose lateness is judged. A create that was not acknowledged may be stored nevertheless; no hint
    was sent for it, so nodes may find it only in their sweep.
    """

    def __init__(self) -> None:
        self.every: list[Stage] = []

    def begin(self, name: str, *, at_most_late: float) -> Stage:
        """Begin a stage, which ends the one before."""
        now = time.time()
        if self.every:
            self.every[-1].end = now
        self.every.append(Stage(name=name, at_most_late=at_most_late, start=now))
        return self.every[-1]

    def figures(self, calls: Iterable[Call], *, punctual: Collection[str]) -> list[Figures]:
        attempts = _by_attempt(calls)
        return [
            Figures(
                stage=stage,
                calls=len(late := [_late(group) for group in attempts if _judged(stage, group, punctual)]),
                latest=max(late, default=0.0),
                repeats=sum(len(group) - 1 for group in attempts if stage.explains(_by_fence(group)[0])),
            )
            for stage in self.every
        ]

    def faults(self, calls: Iterable[Call], *, punctual: Collection[str]) -> list[str]:
        """Violations, a sentence each: early, too late, or repeated without doubt or without saying so."""
        attempts = _by_attempt(calls)
        found = [f"{_told(call)} came early" for group in attempts for call in group if call["arrived"] < call["due"]]
        for stage in self.every:
            judged = [group[0] for group in attempts if _judged(stage, group, punctual)]
            late = [_told(call) for call in judged if call["arrived"] > self._latest(call["due"], stage)]
            found += [f"{stage.name}: {one} is over {stage.at_most_late:g} s late" for one in late]
        for group in attempts:
            if len(group) > 1:
                found += self._repeated(group)
        return found

    def _latest(self, due: float, stage: Stage) -> float:
        """When a call due then, in `stage`, must have arrived, Unix seconds. A later act extends this if the call was
        still in time when the act happened and the act allows a greater lateness.
        """
        latest = due + stage.at_most_late
        for act in self.every:
            if stage.start < act.start <= latest and act.at_most_late > stage.at_most_late:
                latest = max(latest, act.start + act.at_most_late)
        return latest

    def _repeated(self, group: Sequence[Call]) -> Iterable[str]:
        stage = next((one for one in self.every if one.has(group[0]["arrived"])), self.every[0])
        original, *later = _by_fence(group)
        told = " and ".join(map(_told, group))
        if not any(one.explains(original) for one in self.every):
            yield f"{stage.name}: repeated and not in doubt: {told}"
        if not all(call["redelivery"] for call in later):
            yield f"{stage.name}: repeated without Minutehand-Redelivery: {told}"


def _by_attempt(calls: Iterable[Call]) -> list[list[Call]]:
    """The calls of each attempt of each schedule, in order of arrival: more than one if the attempt was repeated."""
    groups: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in calls:
        groups[call["id"], call["attempt"]].append(call)
    return [sorted(group, key=lambda call: call["arrived"]) for group in groups.values()]


def _by_fence(group: Sequence[Call]) -> list[Call]:
    """Calls in order of their owners' epochs, not of arrival: a frozen owner may send what the next owner has repeated
    already.
    """
    return sorted(group, key=lambda call: (call["fence"], call["arrived"]))


def _judged(stage: Stage, group: Sequence[Call], punctual: Collection[str]) -> bool:
    return group[0]["attempt"] == 1 and stage.has(group[0]["due"]) and group[0]["id"] in punctual


def _late(group: Sequence[Call]) -> float:
    return float(group[0]["arrived"] - group[0]["due"])


def _told(call: Call) -> str:
    poller = poller_of(UUID(call["id"]))
    again = " as a redelivery" if call["redelivery"] else ""
    return (
        f"{call['id']} (poller {poller}, attempt {call['attempt']}, fence {call['fence']}) due {call['due']:.3f} "
        f"at {call['arrived'] - call['due']:+.3f} s{again}"
    )
