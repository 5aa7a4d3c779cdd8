"""`minutehand crons`: recurring rules that expand into schedules."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.callbacks import AckSeconds, CallbackUrl, Content, Method, read_callback
from minutehand.cli.option_groups import grouped
from minutehand.cli.options import (
    DEFAULT_URL,
    AsJson,
    ClientId,
    IdempotencyKey,
    KeyText,
    Revision,
    Url,
    connect,
    limit_of,
)
from minutehand.cli.output import at_most, print_fields, print_json, print_table, say
from minutehand.cli.rule_options import RuleOptions
from minutehand.cli.schedule_options import Attempts, Ends, OrderingKey, SucceedWithin, given
from minutehand.cli.schedule_view import show_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minutehand.client import Cron, CronChange, Dst

app = typer.Typer(help="Put crons, look at them, pause, resume, trigger and delete them. Takes the client's own key.")

CronId = Annotated[
    str,
    typer.Argument(
        metavar="CRON", help="The cron's id: lower-case letters, digits, '.', '_' and '-'.", show_default=False
    ),
]
TimeZone = Annotated[
    str,
    typer.Option("--timezone", metavar="ZONE", help="IANA name of the zone: Europe/Berlin, UTC.", show_default=False),
]
Gap = Annotated[
    str | None,
    typer.Option(
        "--dst-gap",
        help="Times that a change of clocks skips: shift (call right after it; without this option) or skip.",
        show_default=False,
    ),
]
Fold = Annotated[
    str | None,
    typer.Option(
        "--dst-fold",
        help="Times that a change of clocks repeats: first (without this option) or both.",
        show_default=False,
    ),
]
PauseNote = Annotated[
    str | None,
    typer.Option("--note", help="Why, shown with the cron until it is resumed.", show_default=False),
]
LabelOfAll = Annotated[str, typer.Option("--label", help="The label of the crons.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say which crons would change.")]


@app.command(
    epilog="Example: minutehand crons put shop nightly https://shop.example/hooks/nightly "
    "--expression '30 2 * * *' --timezone Europe/Berlin --header 'X-Shop: 1' --retry-deadline-seconds 3600"
)
@grouped
def put(
    client_id: ClientId,
    cron_id: CronId,
    callback_url: CallbackUrl = None,
    *,
    expression: Annotated[
        str,
        typer.Option(
            "--expression",
            metavar="'FIELDS'",
            help="Minute, hour, day of month, month, day of week: '30 2 * * *'; or @hourly and the like; "
            "or as --dialect reads it.",
            show_default=False,
        ),
    ],
    timezone: TimeZone,
    when: RuleOptions,
    method: Method = None,
    content: Content,
    ack_seconds: AckSeconds = None,
    starts_at: Annotated[
        str | None, typer.Option("--starts-at", help="No fire before this instant, RFC 3339.", show_default=False)
    ] = None,
    ends_at: Annotated[
        str | None, typer.Option("--ends-at", help="No fire from this instant on, RFC 3339.", show_default=False)
    ] = None,
    max_fires: Annotated[
        int | None, typer.Option("--max-fires", help="Maximum number of fires.", show_default=False)
    ] = None,
    spread_seconds: Annotated[
        int | None,
        typer.Option("--spread-seconds", help="Fixed offset per cron, up to this many seconds.", show_default=False),
    ] = None,
    catch_up_seconds: Annotated[
        float | None,
        typer.Option(
            "--catch-up-seconds",
            help="Skip fires that were missed by more than this. [default: 3600]",
            show_default=False,
        ),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            help="If an earlier run has not ended: allow, skip, buffer_one, buffer_all or cancel_other. "
            "[default: allow]",
            show_default=False,
        ),
    ] = None,
    dst_gap: Gap = None,
    dst_fold: Fold = None,
    attempts: Attempts,
    label: Annotated[
        str | None, typer.Option("--label", help="A name to find the cron's schedules by.", show_default=False)
    ] = None,
    ordering_key: OrderingKey = None,
    pause_after_failures: Annotated[
        int | None,
        typer.Option(
            "--pause-after-failures", help="Pause the cron after so many failed runs in a row.", show_default=False
        ),
    ] = None,
    ends: Ends,
    succeed_within_seconds: SucceedWithin = None,
    revision: Revision = None,
    absent: Annotated[bool, typer.Option("--absent", help="Only if there is no such cron.")] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Create a cron, or replace its rule and callback. What is left out has its default."""
    callback = read_callback(callback_url, method=method, ack_seconds=ack_seconds, **content.told())
    options = {
        "starts_at": starts_at,
        "ends_at": ends_at,
        "max_fires": max_fires,
        "spread_seconds": spread_seconds,
        "catch_up_seconds": catch_up_seconds,
        "overlap": overlap,
        "dst": _dst(dst_gap, dst_fold),
        "label": label,
        "ordering_key": ordering_key,
        "pause_after_failures": pause_after_failures,
        **ends.told(),
        "succeed_within_seconds": succeed_within_seconds,
    }
    rule: dict[str, Any] = {"expression": expression, "timezone": timezone, **when.told(), **given(options)}
    with connect(url, key) as api:
        crons = api.client(client_id).crons
        _show(crons.put(cron_id, callback, revision=revision, absent=absent, **rule, **attempts.told()), as_json)


@app.command(epilog="Example: minutehand crons show shop nightly")
def show(
    client_id: ClientId, cron_id: CronId, url: Url = DEFAULT_URL, key: KeyText = None, as_json: AsJson = False
) -> None:
    """Show a cron, its rule in words and its next fires."""
    with connect(url, key) as api:
        _show(api.client(client_id).crons.get(cron_id), as_json)


@app.command("list", epilog="Example: minutehand crons list shop")
def list_(
    client_id: ClientId,
    limit: Annotated[int, limit_of("crons")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List crons by their ids."""
    with connect(url, key) as api:
        crons, more = at_most(limit, api.client(client_id).crons.list(page_size=min(limit + 1, 200)))
    if as_json:
        print_json(crons, more=more)
        return
    rows = [
        (
            one.cron_id,
            one.state,
            one.expression,
            one.timezone,
            one.next_fires[0] if one.next_fires else None,
            one.label,
            one.callback.receiver,
        )
        for one in crons
    ]
    print_table(
        ("CRON", "STATE", "EXPRESSION", "ZONE", "NEXT FIRE", "LABEL", "URL"), rows, yielding={"LABEL", "URL"}, more=more
    )


@app.command(epilog="Example: minutehand crons pause shop nightly --note 'until the books are moved'")
def pause(
    client_id: ClientId,
    cron_id: CronId,
    note: PauseNote = None,
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Pause a cron: no more fires until it is resumed."""
    with connect(url, key) as api:
        _show(api.client(client_id).crons.pause(cron_id, note=note, revision=revision), as_json)


@app.command(
    "pause-all", epilog="Example: minutehand crons pause-all shop --label books --note 'moving the books' --dry-run"
)
def pause_all(
    client_id: ClientId,
    label: LabelOfAll,
    note: PauseNote = None,
    dry_run: DryRun = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Pause all crons with a label. Those that are paused already keep their note."""
    with connect(url, key) as api:
        changes = api.client(client_id).crons.pause_all(label=label, note=note, dry_run=dry_run)
    _show_changes(changes, "paused", dry_run, as_json)


@app.command("resume-all", epilog="Example: minutehand crons resume-all shop --label books --note 'moving the books'")
def resume_all(
    client_id: ClientId,
    label: LabelOfAll,
    note: Annotated[
        str | None, typer.Option("--note", help="Only crons that were paused with this note.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Resume all paused crons with a label, from now on. Missed fires are not made up for."""
    with connect(url, key) as api:
        changes = api.client(client_id).crons.resume_all(label=label, note=note, dry_run=dry_run)
    _show_changes(changes, "resumed", dry_run, as_json)


@app.command(epilog="Example: minutehand crons resume shop nightly")
def resume(
    client_id: ClientId,
    cron_id: CronId,
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Resume a paused cron from now on. Missed fires are not made up for."""
    with connect(url, key) as api:
        _show(api.client(client_id).crons.resume(cron_id, revision=revision), as_json)


@app.command(epilog="Example: minutehand crons trigger shop nightly")
def trigger(
    client_id: ClientId,
    cron_id: CronId,
    idempotency_key: IdempotencyKey = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Run a cron once, now, beside its rule. Its state does not matter. Shows the schedule."""
    with connect(url, key) as api:
        show_schedule(api.client(client_id).crons.trigger(cron_id, idempotency_key=idempotency_key), as_json)


@app.command(
    epilog="Example: minutehand crons backfill shop nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z "
    "--dry-run"
)
def backfill(
    client_id: ClientId,
    cron_id: CronId,
    start: Annotated[str, typer.Option("--from", help="First instant, RFC 3339.", show_default=False)],
    end: Annotated[
        str | None, typer.Option("--to", help="Before this instant. [default: now]", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which fires would be made.")] = False,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Make past fires that were not made.

    Those are skipped ones, those of a pause, and those from before the cron existed. Each is made once: the same
    command again makes what is still missing.
    """
    with connect(url, key) as api:
        items = api.client(client_id).crons.backfill(cron_id, start=start, end=end, dry_run=dry_run)
    if as_json:
        print_json(items)
    else:
        called = sum(one.called for one in items)
        say(f"{called:,} of {len(items):,} fires {'would be' if dry_run else 'are'} called.")
        rows = [(one.nominal_due, one.status, one.due, one.state, one.reason, one.schedule_id) for one in items]
        if rows:
            print_table(("FIRE", "ANSWER", "CALLED AT", "STATE", "REASON", "SCHEDULE ID"), rows)
    if any(one.status == 503 for one in items):
        raise typer.Exit(1)


@app.command(epilog="Example: minutehand crons delete shop nightly")
def delete(
    client_id: ClientId,
    cron_id: CronId,
    revision: Revision = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Delete a cron: no more fires. Its runs stay readable."""
    with connect(url, key) as api:
        _show(api.client(client_id).crons.delete(cron_id, revision=revision), as_json)


@app.command(epilog="Example: minutehand crons runs shop nightly --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z")
def runs(
    client_id: ClientId,
    cron_id: CronId,
    start: Annotated[
        str | None, typer.Option("--from", help="First instant, RFC 3339. [default: a day ago]", show_default=False)
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Before this instant, 31 days later at most. [default: a day ahead; with --newest, now]",
            show_default=False,
        ),
    ] = None,
    newest: Annotated[
        bool,
        typer.Option(
            "--newest",
            help="The newest first, of those that have a schedule; without --from those of the last 30 days. With a "
            "later --to, runs that wait come before them.",
        ),
    ] = False,
    limit: Annotated[int, limit_of("runs")] = 100,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List a cron's past and planned runs."""
    with connect(url, key) as api:
        order = "newest" if newest else None
        crons = api.client(client_id).crons
        found = crons.runs(cron_id, start=start, end=end, order=order, page_size=min(limit + 1, 500))
        listed, more = at_most(limit, found)
    if as_json:
        print_json(listed, more=more)
        return
    rows = [
        (
            one.nominal_due,
            one.kind,
            one.due,
            one.state,
            one.attempts,
            one.last_status,
            one.reason,
            one.finished_at,
            one.duration_seconds,
            one.schedule_id,
        )
        for one in listed
    ]
    columns = ("FIRE", "KIND", "DUE", "STATE", "ATTEMPTS", "STATUS", "REASON", "FINISHED", "SECONDS", "SCHEDULE ID")
    print_table(columns, rows, more=more)


@app.command(epilog="Example: minutehand crons preview '0 9 * * mon-fri' --timezone America/New_York --count 10")
@grouped
def preview(
    expression: Annotated[
        str,
        typer.Argument(
            metavar="'EXPRESSION'",
            help="Five fields, or @hourly and the like; or as --dialect reads it.",
            show_default=False,
        ),
    ],
    timezone: TimeZone,
    when: RuleOptions,
    start: Annotated[
        str | None, typer.Option("--from", help="First instant, RFC 3339. [default: now]", show_default=False)
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="How many fires.")] = 5,
    dst_gap: Gap = None,
    dst_fold: Fold = None,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """Try a rule out: in words, and when it would fire. Takes any key, and stores nothing."""
    with connect(url, key) as api:
        found = api.preview_cron(
            expression, timezone=timezone, dst=_dst(dst_gap, dst_fold), start=start, count=count, **when.told()
        )
    if as_json:
        print_json(found)
        return
    say(f"{found.words[:1].upper()}{found.words[1:]} ({found.rule or found.expression}, {found.timezone})")
    print_table(("FIRE",), [(fire,) for fire in found.next_fires])


def _show_changes(changes: "Sequence[CronChange]", done: str, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(changes)
    else:
        changed, left = sum(one.changed for one in changes), sum(one.status != 200 for one in changes)
        refused = f", {left:,} could not be" if left else ""
        say(f"{changed:,} {'would be' if dry_run else 'were' if changed != 1 else 'was'} {done}{refused}.")
        if changes:
            rows = [(one.cron_id, one.status, one.state, one.changed) for one in changes]
            print_table(("CRON", "ANSWER", "STATE", "CHANGED"), rows)
    if any(one.status == 503 for one in changes):
        raise typer.Exit(1)


def _dst(gap: str | None, fold: str | None) -> "Dst | None":
    from minutehand.client import Dst

    asked = given({"gap": gap, "fold": fold})
    return Dst(**asked) if asked else None


def _show(cron: "Cron", as_json: bool) -> None:
    if as_json:
        print_json(cron)
        return
    print_fields(
        [
            ("cron", cron.cron_id),
            ("state", cron.state),
            ("paused since", cron.pause.at if cron.pause else None),
            ("paused because", cron.pause.note if cron.pause else None),
            ("expression", cron.expression),
            ("also", list(cron.also) or None),
            ("excluding", list(cron.excluding) or None),
            ("dialect", cron.dialect if cron.dialect != "cronie" else None),
            ("rule", cron.rule if cron.rule != cron.expression else None),
            ("time zone", cron.timezone),
            ("in words", cron.words),
            ("next fires", cron.next_fires or None),
            # A deleted cron's callback is not kept.
            ("calls", f"{cron.callback.method} {cron.callback.receiver}" if cron.callback.receiver else None),
            ("starts at", cron.starts_at),
            ("ends at", cron.ends_at),
            ("fires at most", cron.max_fires),
            ("spread seconds", cron.spread_seconds or None),
            ("catch-up seconds", cron.catch_up_seconds),
            ("overlap", cron.overlap),
            ("clocks skip a time", cron.dst.gap),
            ("clocks repeat a time", cron.dst.fold),
            ("time-out seconds", cron.timeout_seconds),
            ("label", cron.label),
            ("ordering key", cron.ordering_key),
            ("pauses after failures", cron.pause_after_failures),
            ("on success", cron.on_success),
            ("on failure", cron.on_failure),
            ("to succeed within seconds", cron.succeed_within_seconds),
            ("revision", cron.revision),
            ("created", cron.created_at),
            ("changed", cron.changed_at),
        ]
    )
