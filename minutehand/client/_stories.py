"""What became of a schedule, and why it was late. Instants are aware datetimes."""

from datetime import datetime

import msgspec

from minutehand.client._calls import Operation, client_path, segment


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a story: when it began and how long it took, None where that is not known; `text` is a sentence for
    people. `cause` is that of a wait, and `behind` the schedule that came before it under its ordering key."""

    step: str
    text: str
    at: datetime | None = None
    seconds: float | None = None
    cause: str | None = None
    behind: str | None = None


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a schedule. `verdict` is about its first attempt: on-time, late, waiting, overdue or not-called;
    `late_seconds`: how much later than its due it began, or would begin now; `cause`: what most of that time was spent
    on, None if that was not recorded. `sentence` says all that for people."""

    sentence: str
    verdict: str
    late_seconds: float | None = None
    cause: str | None = None
    steps: tuple[StoryStep, ...] = ()


def explain_schedule(client_id: str, schedule_id: str) -> Operation[Story]:
    path = f"{client_path(client_id)}/schedules/{segment(schedule_id)}:explain"
    return Operation(method="GET", path=path, answer=Story)
