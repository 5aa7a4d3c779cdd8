"""The options of commands that create or change a schedule, and what they make."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.options import AttemptTimeout, MaxAttempts
from minutehand.cli.output import fail

if TYPE_CHECKING:
    from minutehand.client import LocalTime

ScheduleId = Annotated[
    str, typer.Argument(metavar="SCHEDULE_ID", help="The id that create answered.", show_default=False)
]
Due = Annotated[
    str | None,
    typer.Option(
        "--due",
        help="When, in RFC 3339 with an offset: 2026-11-21T09:30:15Z. With --timezone a local time: 2026-11-21T10:30.",
        show_default=False,
    ),
]
Delay = Annotated[float | None, typer.Option("--delay-seconds", help="When, in seconds from now.", show_default=False)]
Zone = Annotated[
    str | None,
    typer.Option(
        "--timezone", metavar="ZONE", help="IANA name of the zone of --due: Europe/Berlin.", show_default=False
    ),
]
Gap = Annotated[
    str | None,
    typer.Option(
        "--dst-gap",
        help="A local time that a change of clocks skips: shift (call right after it; without this option) or skip "
        "(refuse it).",
        show_default=False,
    ),
]
Fold = Annotated[
    str | None,
    typer.Option(
        "--dst-fold",
        help="A local time that a change of clocks repeats: first (without this option) or second.",
        show_default=False,
    ),
]
Window = Annotated[
    int | None,
    typer.Option("--window-seconds", help="At some instant less than this later.", show_default=False),
]
OrderingKey = Annotated[
    str | None,
    typer.Option("--ordering-key", help="Schedules with the same key are called one at a time.", show_default=False),
]
SkipAfter = Annotated[
    float | None,
    typer.Option(
        "--skip-after-seconds",
        min=0,
        help="Skip the call if it can't be made within this time of its due, instead of the client's late policy.",
        show_default=False,
    ),
]
RetryDeadline = Annotated[
    float | None,
    typer.Option(
        "--retry-deadline-seconds",
        help="No retry begins later than this after the due, instead of the client's own.",
        show_default=False,
    ),
]
OnSuccess = Annotated[
    str | None,
    typer.Option(
        "--on-success",
        metavar="DESTINATION",
        help="Tell this destination, or URL, of the delivery, with the receiver's answer.",
        show_default=False,
    ),
]
OnFailure = Annotated[
    str | None,
    typer.Option(
        "--on-failure",
        metavar="DESTINATION",
        help="Tell this destination, or URL, of the failure, with the receiver's last answer.",
        show_default=False,
    ),
]
IfMatch = Annotated[
    str | None,
    typer.Option(
        "--if-match",
        metavar="ETAG",
        help="Only if the schedule still has this ETag, as it was shown before.",
        show_default=False,
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Your own name for it.", show_default=False)]
Latest = Annotated[
    str | None,
    typer.Option("--latest", help="When at the latest, however often it is replaced.", show_default=False),
]
SucceedWithin = Annotated[
    float | None,
    typer.Option(
        "--succeed-within-seconds",
        help="Tell as an event if it was not delivered so long after its due.",
        show_default=False,
    ),
]
SucceedBy = Annotated[
    str | None,
    typer.Option("--succeed-by", help="Tell as an event if it was not delivered by this instant.", show_default=False),
]
NewUrl = Annotated[str | None, typer.Option("--callback-url", help="The address to call instead.", show_default=False)]
NewMethod = Annotated[str | None, typer.Option("--method", help="The method to use instead.", show_default=False)]
Label = Annotated[str | None, typer.Option("--label", help="A name to find schedules by.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a schedule is due: options of several commands."""

    due: Due = None
    timezone: Zone = None
    dst_gap: Gap = None
    dst_fold: Fold = None
    delay_seconds: Delay = None

    def told(self) -> dict[str, Any]:
        """As the SDK takes it."""
        due = due_of(self.due, self.timezone, self.dst_gap, self.dst_fold)
        return given({"due": due, "delay_seconds": self.delay_seconds})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """How a call is attempted, where that differs from its client's own settings."""

    timeout_seconds: AttemptTimeout = None
    max_attempts: MaxAttempts = None
    retry_deadline_seconds: RetryDeadline = None

    def told(self) -> dict[str, Any]:
        """As the SDK takes it."""
        retry = given({"max_attempts": self.max_attempts, "deadline_seconds": self.retry_deadline_seconds})
        return given({"timeout_seconds": self.timeout_seconds, "retry": retry or None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAttempts(Attempts):
    """The same for a single schedule."""

    skip_after_seconds: SkipAfter = None
    succeed_within_seconds: SucceedWithin = None
    succeed_by: SucceedBy = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Who is told of the end of a call."""

    on_success: OnSuccess = None
    on_failure: OnFailure = None

    def told(self) -> dict[str, Any]:
        """As the SDK takes it."""
        return given({"on_success": self.on_success, "on_failure": self.on_failure})


def schedule_options(when: When, attempts: ScheduleAttempts, **others: Any) -> dict[str, Any]:
    """The options of a new schedule that were given, as the SDK takes them."""
    others["skip_after_seconds"] = attempts.skip_after_seconds
    others["succeed_within_seconds"] = attempts.succeed_within_seconds
    others["succeed_by"] = attempts.succeed_by
    return {**when.told(), **attempts.told(), **given(others)}


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def due_of(due: str | None, timezone: str | None, gap: str | None, fold: str | None) -> "str | LocalTime | None":
    """Exits with a sentence where the options don't make an instant."""
    dst = {name: value for name, value in (("gap", gap), ("fold", fold)) if value is not None}
    if timezone is None:
        if dst:
            fail("--dst-gap and --dst-fold are for a --due in a --timezone.")
        return due
    if due is None:
        fail("--timezone is for a --due: give that, too.")
    from minutehand.client import LocalTime

    return LocalTime(local=due, timezone=timezone, **dst)
