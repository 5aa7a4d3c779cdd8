"""`minutehand schedules`: create, show, cancel and list future calls."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli import load as load_file
from minutehand.cli.callbacks import (
    AckSeconds,
    CallbackUrl,
    Content,
    Method,
    read_callback,
    read_callback_update,
)
from minutehand.cli.exchange import show_request
from minutehand.cli.option_groups import grouped
from minutehand.cli.options import (
    DEFAULT_URL,
    AsJson,
    ClientId,
    ConfigFile,
    IdempotencyKey,
    KeyText,
    Url,
    connect,
    environment,
)
from minutehand.cli.output import are, print_fields, print_json, print_table, progress, say
from minutehand.cli.schedule_options import (
    Delay,
    Due,
    Ends,
    Fold,
    Gap,
    IfMatch,
    Key,
    Label,
    Latest,
    NewMethod,
    NewUrl,
    OrderingKey,
    ScheduleAttempts,
    ScheduleId,
    When,
    Window,
    Zone,
    due_of,
    schedule_options,
)
from minutehand.cli.schedule_view import show_schedule
from minutehand.cli.schedule_windows import cancel_window, count, list_, reschedule_window
from minutehand.cli.story_view import explain

if TYPE_CHECKING:
    from minutehand.client import Attempt

_TOLD_EVERY = 500
"""Lines of a load, by progress."""
app = typer.Typer(
    help="Create, look at, cancel and list schedules. Takes the client's own key; `show` reads Cassandra instead."
)


@app.command(
    epilog="Example: minutehand schedules create shop https://shop.example/hooks/orders --due 2027-03-28T09:00 "
    "--timezone Europe/Berlin --window-seconds 600"
)
@grouped
def create(
    client_id: ClientId,
    callback_url: CallbackUrl = None,
    *,
    when: When,
    window_seconds: Window = None,
    method: Method = None,
    content: Content,
    ack_seconds: AckSeconds = None,
    label: Label = None,
    ordering_key: OrderingKey = None,
    attempts: ScheduleAttempts,
    ends: Ends,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule. It is one call, at --due or after --delay-seconds.

    A due in the past is called at once, unless it is older than the client's settings accept.
    """
    callback = read_callback(callback_url, method=method, ack_seconds=ack_seconds, **content.told())
    options = schedule_options(
        when,
        attempts,
        window_seconds=window_seconds,
        label=label,
        ordering_key=ordering_key,
        **ends.told(),
    )
    with connect(url, key) as api:
        schedules = api.client(client_id).schedules
        show_schedule(schedules.create(callback, idempotency_key=idempotency_key, **options), as_json)


@app.command(epilog="Example: minutehand schedules put shop cart-17 https://shop.example/expire --delay-seconds 600")
@grouped
def put(
    client_id: ClientId,
    schedule_key: Key,
    callback_url: CallbackUrl = None,
    *,
    when: When,
    window_seconds: Window = None,
    latest: Latest = None,
    method: Method = None,
    content: Content,
    ack_seconds: AckSeconds = None,
    label: Label = None,
    ordering_key: OrderingKey = None,
    attempts: ScheduleAttempts,
    ends: Ends,
    if_match: IfMatch = None,
    absent: Annotated[bool, typer.Option("--absent", help="Only if the key names none that waits.")] = False,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Put a schedule under your own key.

    It replaces the schedule that waits under the key, and exactly one of the two is called.
    """
    callback = read_callback(callback_url, method=method, ack_seconds=ack_seconds, **content.told())
    options = schedule_options(
        when,
        attempts,
        window_seconds=window_seconds,
        latest=latest,
        label=label,
        ordering_key=ordering_key,
        **ends.told(),
    )
    with connect(url, key) as api:
        schedules = api.client(client_id).schedules
        made = schedules.put(
            schedule_key, callback, if_match=if_match, absent=absent, idempotency_key=idempotency_key, **options
        )
        show_schedule(made, as_json)


@app.command(epilog="Example: minutehand schedules load shop reminders.ndjson")
def load(
    client_id: ClientId,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=f"One JSON object a line, as the API takes it; or, named .csv, a head and a schedule a line. "
            f"Columns: {', '.join(load_file.CSV_COLUMNS)}.",
            show_default=False,
        ),
    ],
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Create the schedules that a file lists.

    The file is read first: if any line is no schedule, all such are named and nothing is created. After an interruption
    the same command goes on: under one name of a file, a line is created once in 24 hours, and then counted as created
    again. Lines that were corrected or added are created. A line with a `key` replaces what waits under it.

    Millions are for `minutehand spark run bulk_load`. Ends with 1 if any schedule was refused.
    """
    total, lines = load_file.checked(file)
    loaded = load_file.Load(total)
    try:
        with connect(url, key) as api:
            loaded.run(lines(), api.client(client_id).schedules, told=lambda: _tell_progress(loaded))
    finally:
        # Also when it stops midway, by an interruption too.
        _show_load(loaded, as_json)
    if loaded.refused:
        raise typer.Exit(1)


def _tell_progress(loaded: load_file.Load) -> None:
    done = loaded.total - loaded.left
    if done % _TOLD_EVERY == 0:
        progress(f"{done:,} of {loaded.total:,} lines, {len(loaded.refused):,} of them refused")


def _show_load(loaded: load_file.Load, as_json: bool) -> None:
    if as_json:
        print_json({"created": loaded.created, "refused": loaded.refused, "left": loaded.left})
        return
    left = f", {are(loaded.left)} left: the same command goes on with them" if loaded.left else ""
    say(f"{are(loaded.created)} created, {len(loaded.refused):,} refused{left}.")
    if loaded.refused:
        rows = [(one["line"], one["status"], one["detail"]) for one in loaded.refused]
        print_table(("LINE", "STATUS", "REASON"), rows, yielding={"REASON"})


@app.command("get-by-key", epilog="Example: minutehand schedules get-by-key shop cart-17")
def get_by_key(
    client_id: ClientId, schedule_key: Key, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Show the schedule that a key names."""
    with connect(url, key) as api:
        show_schedule(api.client(client_id).schedules.get_by_key(schedule_key), as_json)


@app.command("cancel-by-key", epilog="Example: minutehand schedules cancel-by-key shop cart-17")
def cancel_by_key(
    client_id: ClientId,
    schedule_key: Key,
    if_match: IfMatch = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Cancel the schedule that a key names. When this succeeds, the receiver is not called any more."""
    with connect(url, key) as api:
        show_schedule(api.client(client_id).schedules.cancel_by_key(schedule_key, if_match=if_match), as_json)


@app.command(epilog="Example: minutehand schedules get shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1")
def get(
    client_id: ClientId, schedule_id: ScheduleId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Show a schedule and what became of it."""
    with connect(url, key) as api:
        show_schedule(api.client(client_id).schedules.get(schedule_id), as_json)


@app.command(epilog="Example: minutehand schedules show shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1 --raw")
def show(
    client_id: ClientId,
    schedule_id: ScheduleId,
    raw: Annotated[
        bool, typer.Option("--raw", help="Each cell as it is stored: packed ones are shown with what is in them.")
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a schedule's row in Cassandra, for operators.

    As programs read it, with the header of its partition; --raw shows the cells instead. Columns that are null are
    left out: without a state it is scheduled. Cassandra is found by the settings in --config; no API and no key is
    needed. Headers stay as they are stored, encrypted where there is a key ring. Of long bodies the beginning is shown.
    """
    import asyncio

    from minutehand.cli.stored_schedule import flat, stored_schedule
    from minutehand.config import FOR_STORAGE, load_settings
    from scheduler_service.runtime.logging import configure_logging

    settings = load_settings(environment=environment(), file=config, required=FOR_STORAGE)
    configure_logging(settings.logging, identity={"program": "schedules"})
    found = asyncio.run(stored_schedule(settings.cassandra, client_id, schedule_id, raw=raw))
    if as_json:
        print_json(found)
    else:
        print_fields(flat(found))


@app.command(epilog="Example: minutehand schedules cancel shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1")
def cancel(
    client_id: ClientId,
    schedule_id: ScheduleId,
    if_match: IfMatch = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a schedule. When this succeeds, the receiver is not called any more.

    One that was rescheduled is refused with the id of the schedule that is called instead: cancel that one. Where a
    node stopped during the call, the state says "in doubt": the receiver may have been called before.
    """
    with connect(url, key) as api:
        show_schedule(api.client(client_id).schedules.cancel(schedule_id, if_match=if_match), as_json)


@app.command(
    epilog="Example: minutehand schedules reschedule shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1 --delay-seconds 600"
)
def reschedule(
    client_id: ClientId,
    schedule_id: ScheduleId,
    due: Due = None,
    timezone: Zone = None,
    dst_gap: Gap = None,
    dst_fold: Fold = None,
    delay_seconds: Delay = None,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Call a schedule at another instant instead. Takes --due or --delay-seconds, and shows the new one.

    Refused for a schedule that may have been called already, and while it is being called.
    """
    with connect(url, key) as api:
        schedules = api.client(client_id).schedules
        moved = schedules.reschedule(
            schedule_id,
            due=due_of(due, timezone, dst_gap, dst_fold),
            delay_seconds=delay_seconds,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )
        show_schedule(moved, as_json)


@app.command(
    epilog="Example: minutehand schedules update shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1 --label order-18 "
    "--header 'X-Shop: 2'"
)
@grouped
def update(
    client_id: ClientId,
    schedule_id: ScheduleId,
    *,
    when: When,
    callback_url: NewUrl = None,
    method: NewMethod = None,
    content: Content,
    label: Label = None,
    attempts: ScheduleAttempts,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Change a waiting schedule; what is not given stays. It keeps its id, unless its due or flow key changes, it is
    being retried, or it is a cron's run: then it goes on under another id, which is shown.

    Headers are merged by name. A retry option replaces all of the schedule's own retry options.
    """
    callback = read_callback_update(callback_url, method=method, **content.told())
    changes = schedule_options(
        when,
        attempts,
        label=label,
    )
    with connect(url, key) as api:
        changed = api.client(client_id).schedules.update(
            schedule_id,
            callback=callback,
            if_match=if_match,
            idempotency_key=idempotency_key,
            **changes,
        )
        show_schedule(changed, as_json)


@app.command(epilog="Example: minutehand schedules run shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1 --dry-run")
def run(
    client_id: ClientId,
    schedule_id: ScheduleId,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the signed request that would be sent, and send nothing.")
    ] = False,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Call a waiting schedule now instead of at its due. It goes on under another id, which is shown."""
    with connect(url, key) as api:
        schedules = api.client(client_id).schedules
        if not dry_run:
            show_schedule(schedules.run(schedule_id, if_match=if_match, idempotency_key=idempotency_key), as_json)
            return
        request = schedules.preview(schedule_id)
    if as_json:
        print_json(request)
    else:
        show_request(request)


@app.command(epilog="Example: minutehand schedules redeliver shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1")
def redeliver(
    client_id: ClientId,
    schedule_id: ScheduleId,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Call a schedule again, now. It was delivered, skipped or has failed."""
    with connect(url, key) as api:
        schedules = api.client(client_id).schedules
        show_schedule(schedules.redeliver(schedule_id, idempotency_key=idempotency_key), as_json)


@app.command(epilog="Example: minutehand schedules attempts shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1")
def attempts(
    client_id: ClientId, schedule_id: ScheduleId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """List every attempt of a schedule so far."""
    with connect(url, key) as api:
        found = api.client(client_id).schedules.attempts(schedule_id)
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one.attempt,
            one.outcome,
            one.started_at,
            one.finished_at,
            one.duration_seconds,
            one.status,
            one.error,
            one.verb if one.verb_ignored is None else f"{one.verb} ({one.verb_ignored})",
            _word(one),
            _answer(one),
        )
        for one in found
    ]
    columns = ("ATTEMPT", "OUTCOME", "STARTED", "ENDED", "SECONDS", "STATUS", "ERROR", "VERB", "WORD", "ANSWER")
    print_table(columns, rows, yielding={"ERROR", "VERB", "WORD", "ANSWER"})


def _word(attempt: "Attempt") -> str | None:
    """What the receiver said after it had taken the call."""
    said = attempt.acknowledgement
    if said is None:
        return None
    return said.result if said.reason is None else f"{said.result} ({said.reason})"


def _answer(attempt: "Attempt") -> str | None:
    """The beginning of the answer, or why there was none. A receiver that says no more than its status is told from one
    without an answer."""
    return "(empty)" if attempt.excerpt == "" and attempt.status is not None else attempt.excerpt or None


app.command(epilog="Example: minutehand schedules explain shop 01a1fe8c-3c6a-8000-8000-1f6d8a5bd3c1")(explain)
app.command(
    "cancel-window",
    epilog="Example: minutehand schedules cancel-window shop "
    "--from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z --label reminders",
)(cancel_window)
app.command(
    "reschedule-window",
    epilog="Example: minutehand schedules reschedule-window shop "
    "--from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z --host a.example --shift-seconds 3600",
)(reschedule_window)
app.command("list", epilog="Example: minutehand schedules list shop --from 2026-11-21T09:00:00Z --state failed")(list_)
app.command(epilog="Example: minutehand schedules count shop --to 2026-11-28T09:00:00Z --host a.example")(count)
