"""The commands of `minutehand schedules` over windows: list, count, cancel-window, reschedule-window."""

from collections.abc import Sequence
from typing import Annotated

import typer

from minutehand.cli.filter_options import End, Filters, RequiredEnd, RequiredStart, Start, States
from minutehand.cli.option_groups import grouped
from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, IdempotencyKey, KeyText, Url, connect, limit_of
from minutehand.cli.output import are, at_most, print_json, print_table, say
from minutehand.cli.schedule_options import Delay, Due, Fold, Gap, Window, Zone, due_of
from minutehand.cli.schedule_view import IN_DOUBT, state_of


@grouped
def cancel_window(
    client_id: ClientId,
    *,
    start: RequiredStart,
    end: RequiredEnd,
    state: States = None,
    filters: Filters,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Cancel whatever waits and is due within a window.

    What was rescheduled to an instant outside the window is not in it.
    """
    with connect(url, key) as api:
        items = api.client(client_id).schedules.cancel_window(
            start=start, end=end, state=state or None, **filters.told()
        )
    if as_json:
        print_json(items)
        return
    left = [(one.schedule_id, one.status, one.state, one.rescheduled_to) for one in items if not one.cancelled]
    doubtful = sum(one.cancelled and one.reason == IN_DOUBT for one in items)
    in_doubt = f", {doubtful:,} in doubt, which may have been called before" if doubtful else ""
    say(f"{are(len(items) - len(left))} cancelled{in_doubt}{_left(left)}.")
    if left:
        print_table(("SCHEDULE ID", "ANSWER", "STATE", "RESCHEDULED TO"), left)


@grouped
def reschedule_window(
    client_id: ClientId,
    *,
    start: RequiredStart,
    end: RequiredEnd,
    shift_seconds: Annotated[
        float | None,
        typer.Option("--shift-seconds", help="By so many seconds; negative: earlier.", show_default=False),
    ] = None,
    due: Due = None,
    timezone: Zone = None,
    dst_gap: Gap = None,
    dst_fold: Fold = None,
    delay_seconds: Delay = None,
    window_seconds: Window = None,
    state: States = None,
    filters: Filters,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many would move, and move none.")] = False,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Reschedule whatever waits and is due within a window.

    Takes --shift-seconds, --due or --delay-seconds. Each moves once: the same command again moves nothing, unless it
    has another idempotency key.
    """
    with connect(url, key) as api:
        schedules_of = api.client(client_id).schedules
        if dry_run:
            wanted = state or ["scheduled", "retrying"]
            waiting = schedules_of.count(start=start, end=end, state=wanted, **filters.told())
            if as_json:
                print_json({"dry_run": True, "count": waiting})
            else:
                say(f"{waiting:,} would be rescheduled.")
            return
        items = schedules_of.reschedule_window(
            start=start,
            end=end,
            shift_seconds=shift_seconds,
            due=due_of(due, timezone, dst_gap, dst_fold),
            delay_seconds=delay_seconds,
            window_seconds=window_seconds,
            state=state or None,
            idempotency_key=idempotency_key,
            **filters.told(),
        )
    if as_json:
        print_json(items)
        return
    left = [one for one in items if not one.rescheduled]
    say(f"{are(len(items) - len(left))} rescheduled{_left(left)}.")
    if left:
        rows = [(one.schedule_id, one.status, one.state, one.reason, one.rescheduled_to) for one in left]
        print_table(("SCHEDULE ID", "ANSWER", "STATE", "REASON", "RESCHEDULED TO"), rows, yielding={"REASON"})


def _left(left: Sequence[object]) -> str:
    """How many schedules a request could not change; nothing if none."""
    return f"; {len(left):,} could not be" if left else ""


@grouped
def list_(
    client_id: ClientId,
    *,
    start: Start = None,
    end: End = None,
    state: States = None,
    filters: Filters,
    limit: Annotated[int, limit_of("schedules")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List schedules by the time they are due."""
    with connect(url, key) as api:
        schedules_of = api.client(client_id).schedules
        found = schedules_of.list(start=start, end=end, page_size=min(limit + 1, 1000), **filters.of(state))
        schedules, more = at_most(limit, found)
    if as_json:
        print_json(schedules, more=more)
        return
    rows = [
        (one.schedule_id, one.due, state_of(one), one.attempts, one.last_status, one.label, one.callback.receiver)
        for one in schedules
    ]
    print_table(
        ("SCHEDULE ID", "DUE", "STATE", "ATTEMPTS", "STATUS", "LABEL", "CALLS"),
        rows,
        yielding={"LABEL", "CALLS"},
        more=more,
    )


@grouped
def count(
    client_id: ClientId,
    *,
    start: Start = None,
    end: End = None,
    state: States = None,
    filters: Filters,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Count schedules that are due within a window."""
    with connect(url, key) as api:
        found = api.client(client_id).schedules.count(start=start, end=end, **filters.of(state))
    if as_json:
        print_json({"count": found})
        return
    say(f"{found:,}")
