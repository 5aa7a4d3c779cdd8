"""Shows a schedule in a terminal."""

from typing import TYPE_CHECKING

from minutehand.cli.output import print_fields, print_json

if TYPE_CHECKING:
    from minutehand.client import Retry, Schedule

IN_DOUBT = "in-doubt"
"""The reason of a schedule that a node may have called before it stopped."""


def state_of(schedule: "Schedule") -> str:
    if schedule.in_flight:
        return f"{schedule.state} (in flight)"
    return f"{schedule.state} (in doubt)" if schedule.reason == IN_DOUBT else schedule.state


def _own(retry: "Retry | None") -> list[str] | None:
    import msgspec

    return None if retry is None else [f"{name}: {value}" for name, value in msgspec.to_builtins(retry).items()]


def show_schedule(schedule: "Schedule", as_json: bool) -> None:
    """Print a schedule and its outcome, a field a line."""
    if as_json:
        print_json(schedule)
        return
    print_fields(
        [
            ("schedule", schedule.schedule_id),
            ("due", schedule.due),
            ("asked for", schedule.nominal_due),
            ("state", state_of(schedule)),
            ("attempts", schedule.attempts),
            ("next attempt", schedule.next_attempt_at),
            ("first attempt", schedule.first_attempt_at),
            ("finished", schedule.finished_at),
            ("redelivered", schedule.redelivered_at),
            ("last status", schedule.last_status),
            ("last error", schedule.last_error),
            ("reason", schedule.reason),
            ("calls", f"{schedule.callback.method} {schedule.callback.receiver}".lstrip()),
            ("headers", [f"{name}: {value}" for name, value in (schedule.callback.headers or {}).items()] or None),
            ("flow key", schedule.callback.flow_key),
            ("word within seconds", None if schedule.callback.ack is None else schedule.callback.ack.within_seconds),
            ("ordering key", schedule.ordering_key),
            ("time-out seconds", schedule.timeout_seconds),
            ("skip after seconds", schedule.skip_after_seconds),
            ("on success", schedule.on_success),
            ("on failure", schedule.on_failure),
            ("to succeed by", schedule.succeed_by),
            ("retry", _own(schedule.retry)),
            ("label", schedule.label),
            ("key", schedule.key),
            ("at the latest", schedule.latest),
            ("cron", schedule.cron_id),
            ("rescheduled from", schedule.rescheduled_from),
            ("rescheduled to", schedule.rescheduled_to),
            ("poller", schedule.poller_id),
            ("created", schedule.created_at),
            ("ETag", schedule.etag),
        ]
    )
