"""Receivers that live in the server itself: what they answer, and what they were sent.

A schedule whose URL is `{server}/dev/receiver/{name}` is answered by the receiver of that name without a socket. It
answers 204 unless something else is planned.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from scheduler_service.domain.instants import format_instant

KEPT_CALLS: Final = 100_000
"""How many calls are kept; beyond that the oldest are forgotten."""
_LONGEST_NUMBER: Final = 9
PATH: Final = "/dev/receiver/"


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a receiver answers. `times` None: from now on. `error`: nothing, as if it could not be reached."""

    status: Annotated[int, Meta(ge=200, le=599)] = 204
    times: Annotated[int, Meta(ge=1)] | None = None
    headers: dict[str, str] = {}
    body: str = ""
    error: bool = False


USUAL: Final = Answer()


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call as it was made. `at`: the virtual instant. `status` None: there was no answer, `error` says why."""

    number: int
    at: str
    client_id: str
    schedule_id: str
    due: str
    attempt: int
    method: str
    url: str
    status: int | None
    error: str | None = None
    cron_id: str | None = None
    receiver: str | None = None
    headers: dict[str, str] = {}
    body: str = ""

    def in_short(self) -> dict[str, Any]:
        """Without what was sent."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in shown.items() if name not in ("headers", "body")}


@dataclass(slots=True)
class Receivers:
    """All receivers of a server, by name, and every call that was made."""

    planned: dict[str, deque[Answer]] = field(default_factory=dict)
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=KEPT_CALLS))
    made: int = 0
    """Calls so far, the forgotten ones too."""

    def plan(self, name: str, answers: list[Answer]) -> None:
        """Answer so from now on: each as often as it says, in this order, then 204."""
        self.planned[name] = deque(answers)

    def answer(self, name: str) -> Answer:
        """What the receiver answers now; counts as answered."""
        plans = self.planned.get(name)
        if not plans:
            return USUAL
        first = plans[0]
        if first.times is not None:
            plans.popleft()
            if first.times > 1:
                plans.appendleft(msgspec.structs.replace(first, times=first.times - 1))
        return first

    def record(
        self,
        *,
        at_ms: int,
        method: str,
        url: str,
        headers: tuple[tuple[str, str], ...],
        body: bytes,
        status: int | None,
        error: str | None,
        receiver: str | None,
    ) -> None:
        """Keep one call that has ended."""
        self.made += 1
        sent = dict(headers)
        attempt = sent.get("Minutehand-Attempt", "")
        call = Call(
            number=self.made,
            at=format_instant(at_ms),
            client_id=sent.get("Minutehand-Client", ""),
            schedule_id=sent.get("Minutehand-Schedule-Id", sent.get("webhook-id", "")),
            due=sent.get("Minutehand-Due", ""),
            # Anybody may call a receiver, with any header.
            attempt=int(attempt) if attempt.isdecimal() and len(attempt) <= _LONGEST_NUMBER else 1,
            method=method,
            url=url,
            status=status,
            error=error,
            cron_id=sent.get("Minutehand-Cron-Id"),
            receiver=receiver,
            headers=sent,
            body=body.decode("utf-8", "replace"),
        )
        self.calls.append(call)

    def since(self, number: int) -> list[Call]:
        """The kept calls after this one, in the order of their ends."""
        found: list[Call] = []
        for call in reversed(self.calls):
            if call.number <= number:
                break
            found.append(call)
        return found[::-1]

    def clear(self) -> None:
        self.planned.clear()
        self.calls.clear()
