"""`minutehand reconciliations`: one action on everything that was due in a window."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.filter_options import Filters, RequiredEnd, RequiredStart
from minutehand.cli.option_groups import grouped
from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, IdempotencyKey, KeyText, Url, connect, limit_of
from minutehand.cli.output import at_most, print_fields, print_json, print_table, progress

if TYPE_CHECKING:
    from minutehand.client import Reconciliation, ReconciliationsUnderWay

app = typer.Typer(
    help="Count, call again or cancel all schedules of a window, little by little. Takes the client's own key."
)

_COLUMNS = ("CREATED", "RECONCILIATION", "ACTION", "FROM", "TO", "STATE", "MINUTES", "OUTCOMES")

ReconciliationId = Annotated[
    str, typer.Argument(metavar="RECONCILIATION", help="The reconciliation's id.", show_default=False)
]


@app.command(
    epilog="Example: minutehand reconciliations create shop --action redeliver --state failed "
    "--from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z --wait"
)
@grouped
def create(
    client_id: ClientId,
    *,
    action: Annotated[
        str,
        typer.Option(
            "--action",
            help="report (count them), redeliver (call them again), cancel or skip (those that are overdue).",
            show_default=False,
        ),
    ],
    start: RequiredStart,
    end: RequiredEnd,
    state: Annotated[
        list[str],
        typer.Option(
            "--state",
            help="Of those in this state; repeatable. redeliver: delivered, failed, skipped; cancel: scheduled, "
            "retrying; skip: scheduled; report: any.",
            show_default=False,
        ),
    ],
    filters: Filters,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and show how far it has come.")] = False,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Begin a reconciliation. Every schedule of the window is handled once, spread over time."""
    with connect(url, key) as api:
        reconciliations = api.client(client_id).reconciliations
        made = reconciliations.create(
            action,
            start=start,
            end=end,
            states=state,
            idempotency_key=idempotency_key,
            **filters.told(),
        )
        if wait:
            quiet = (lambda found: None) if as_json else _tell
            made = reconciliations.wait(made.reconciliation_id, on_progress=quiet)
    _show(made, as_json)


@app.command(epilog="Example: minutehand reconciliations skip-overdue shop --older-than 3600 --run")
def skip_overdue(
    client_id: ClientId,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than", min=0, metavar="SECONDS", help="Overdue for longer than this.", show_default=False
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option("--from", help="Due from this instant on, RFC 3339. [default: 30 days ago]", show_default=False),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Skip them; without it they are only counted.")] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Count what is overdue and untried, and skip it with --run.

    Skipped schedules are not called any more.

    Waits for the end. Ctrl-C leaves it running: `stop` ends it.
    """
    from scheduler_service.runtime.clock import SystemClock

    end = datetime.fromtimestamp(SystemClock().wall_ms() / 1000 - older_than, UTC)
    with connect(url, key) as api:
        reconciliations = api.client(client_id).reconciliations
        made = reconciliations.create(
            "skip" if run else "report",
            start=start or end - timedelta(days=30),
            end=end,
            states=["scheduled"],
        )
        quiet = (lambda found: None) if as_json else _tell
        made = reconciliations.wait(made.reconciliation_id, on_progress=quiet)
    _show(made, as_json)


@app.command(epilog="Example: minutehand reconciliations show shop 019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364")
def show(
    client_id: ClientId,
    reconciliation_id: ReconciliationId,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Show how far a reconciliation has come. Counts what it found, and what became of that."""
    with connect(url, key) as api:
        _show(api.client(client_id).reconciliations.get(reconciliation_id), as_json)


@app.command("list", epilog="Example: minutehand reconciliations list shop --limit 5")
def list_(
    client_id: Annotated[
        str | None,
        typer.Argument(
            metavar="CLIENT", help="The client's id. [default: those of all clients that run]", show_default=False
        ),
    ] = None,
    limit: Annotated[int, limit_of("reconciliations")] = 20,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List reconciliations, the newest first.

    Without a client those of all clients that run, the oldest first, 100 at most, which needs an administrator's key.
    """
    with connect(url, key) as api:
        if client_id is None:
            _show_under_way(api.reconciliations_under_way(page_size=min(limit, 100)), as_json)
            return
        found, more = at_most(limit, api.client(client_id).reconciliations.list(page_size=min(limit + 1, 100)))
    if as_json:
        print_json(found, more=more)
        return
    print_table(_COLUMNS, [_line(one) for one in found], yielding={"OUTCOMES"}, more=more)


def _show_under_way(found: "ReconciliationsUnderWay", as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found.items:
        typer.echo("No reconciliation is under way.")
    else:
        rows = [(one.client_id, *_line(one), one.created_by) for one in found.items]
        more = found.next_cursor is not None
        print_table(("CLIENT", *_COLUMNS, "BY"), rows, yielding={"OUTCOMES"}, more=more)
    if found.left_out:
        typer.echo(f"{found.left_out:,} more may be: they were not read.")


def _line(one: "Reconciliation") -> Sequence[object]:
    return (
        one.created_at,
        one.reconciliation_id,
        one.action,
        one.start,
        one.end,
        one.state,
        _done(one),
        _counts(one),
    )


@app.command(
    epilog="Example: minutehand reconciliations schedules shop 019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364 --outcome in-flight"
)
def schedules(
    client_id: ClientId,
    reconciliation_id: ReconciliationId,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", help="Only those with this outcome, such as refused.", show_default=False),
    ] = None,
    limit: Annotated[int, limit_of("schedules")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List what a reconciliation did to each schedule. By due, with the reason where one was left alone."""
    with connect(url, key) as api:
        listed = api.client(client_id).reconciliations.schedules(
            reconciliation_id, outcome=outcome, page_size=min(limit + 1, 1000)
        )
        found, more = at_most(limit, listed)
    if as_json:
        print_json(found, more=more)
        return
    rows = [(one.due, one.schedule_id, one.outcome, one.reason) for one in found]
    print_table(("DUE", "SCHEDULE ID", "OUTCOME", "REASON"), rows, yielding={"REASON"}, more=more)


@app.command(epilog="Example: minutehand reconciliations stop shop 019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364")
def stop(
    client_id: ClientId,
    reconciliation_id: ReconciliationId,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """End a reconciliation where it is. What it has done stays done."""
    with connect(url, key) as api:
        _show(api.client(client_id).reconciliations.stop(reconciliation_id), as_json)


def _tell(found: "Reconciliation") -> None:
    progress(f"{_done(found)} minutes; {_counts(found) or 'nothing yet'}")


def _done(found: "Reconciliation") -> str:
    return f"{found.progress.minutes_done:,} of {found.progress.minutes_total:,}"


def _counts(found: "Reconciliation") -> str:
    return ", ".join(f"{count:,} {name}" for name, count in found.outcomes.items())


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " or ".join(value)


def _show(found: "Reconciliation", as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("reconciliation", found.reconciliation_id),
            ("action", found.action),
            ("from", found.start),
            ("to", found.end),
            ("states", ", ".join(found.states)),
            ("filters", ", ".join(f"{name} {_text(value)}" for name, value in found.filters.items()) or None),
            ("state", found.state),
            ("minutes", _done(found)),
            ("found", ", ".join(f"{count:,} {name}" for name, count in found.seen.items()) or "none"),
            ("outcomes", _counts(found) or None),
            *((f"due from {one.hour:%Y-%m-%d %H:%M}", f"{one.schedules:,}") for one in found.hours),
            *(("such as", one) for one in found.samples),
            ("created", found.created_at),
            ("by", found.created_by),
            ("updated", found.updated_at),
        ]
    )
