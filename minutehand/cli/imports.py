"""`minutehand import`: what other schedulers have, as crons and schedules of a client."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from minutehand.cli.callbacks import CallbackPath, Destination
from minutehand.cli.option_groups import grouped
from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect
from minutehand.cli.output import fail, print_json, printable, say

if TYPE_CHECKING:
    from minutehand.client import Callback, Schedule
    from minutehand.client._models import CronOptions
    from minutehand.client._sync.client_scope import ClientScope
    from minutehand.importing.entries import Found
    from minutehand.importing.meaning import Judged

T = TypeVar("T")

_RESULTS: Final = ("created", "changed", "unchanged")
_WAITING: Final = ("scheduled", "retrying")

app = typer.Typer(
    help="Show what the schedules of another scheduler mean here, and put them. Nothing is stored without --apply."
)

ImportedFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file to read.", show_default=False)]
SourceZone = Annotated[
    str,
    typer.Option("--timezone", metavar="ZONE", help="The source's zone, where the file names none: Europe/Berlin."),
]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What all imports take."""

    client_id: Annotated[
        str, typer.Option("--client", metavar="CLIENT", help="The client's id.", show_default=False)
    ] = ""
    url_template: Annotated[
        str | None,
        typer.Option(
            "--url-template",
            metavar="URL",
            help="Where the calls go: 'https://jobs.example/run/{name}'. {name}: in the file; {id}: the id here.",
            show_default=False,
        ),
    ] = None
    destination: Destination = None
    path: CallbackPath = None
    apply: Annotated[bool, typer.Option("--apply", help="Put them; without it: only show.")] = False
    url: Url = DEFAULT_URL
    key: KeyText = None
    as_json: AsJson = False


@app.command(
    epilog="Example: minutehand import crontab my.crontab --timezone Europe/Berlin --client shop "
    "--url-template 'https://jobs.example/run/{id}'"
)
@grouped
def crontab(
    file: ImportedFile,
    timezone: SourceZone = "UTC",
    with_user: Annotated[
        bool, typer.Option("--with-user", help="The sixth field is a user, as in /etc/crontab.")
    ] = False,
    *,
    options: ImportOptions,
) -> None:
    """Import a crontab.

    Each line becomes a cron whose calls carry the command as JSON; nothing here runs it.
    """
    from minutehand.importing.crontab import read_crontab

    _import("crontab", file, lambda text: read_crontab(text, timezone=timezone, with_user=with_user), options)


@app.command(
    epilog="Example: minutehand import k8s-cronjobs cronjobs.json --client shop --destination jobs --path '/{name}'"
)
@grouped
def k8s_cronjobs(file: ImportedFile, timezone: SourceZone = "UTC", *, options: ImportOptions) -> None:
    """Import CronJobs of Kubernetes.

    FILE: what `kubectl get cronjobs -o json` prints. Each job becomes a cron whose calls carry its containers'
    commands.
    """
    from minutehand.importing.kubernetes import read_kubernetes

    _import("k8s", file, lambda text: read_kubernetes(text, timezone=timezone), options)


@app.command(
    epilog="Example: minutehand import eventbridge schedules.json --client shop --url-template 'https://in.example/{name}'"
)
@grouped
def eventbridge(file: ImportedFile, options: ImportOptions) -> None:
    """Import schedules of EventBridge.

    FILE: answers of `aws scheduler get-schedule` or `aws events list-rules`.
    """
    from minutehand.importing.eventbridge import read_eventbridge

    _import("eventbridge", file, read_eventbridge, options)


@app.command(
    epilog="Example: minutehand import celery-beat dump.json --client shop --url-template 'https://in.example/{name}'"
)
@grouped
def celery_beat(file: ImportedFile, timezone: SourceZone = "UTC", *, options: ImportOptions) -> None:
    """Import tasks of django-celery-beat.

    FILE: what `manage.py dumpdata django_celery_beat` prints.
    """
    from minutehand.importing.celery_beat import read_celery_beat

    _import("celery", file, lambda text: read_celery_beat(text, timezone=timezone), options)


@app.command(
    epilog="Example: minutehand import quartz triggers.csv --client shop --url-template 'https://in.example/{name}'"
)
@grouped
def quartz(file: ImportedFile, timezone: SourceZone = "UTC", *, options: ImportOptions) -> None:
    """Import cron triggers of Quartz.

    FILE: the rows of its JDBC job store, QRTZ_TRIGGERS joined with QRTZ_CRON_TRIGGERS, as CSV or JSON.
    """
    from minutehand.importing.quartz import read_quartz

    _import("quartz", file, lambda text: read_quartz(text, timezone=timezone), options)


@app.command(epilog="Example: minutehand import goscheduler schedules.json --timezone Asia/Kolkata --client shop")
@grouped
def goscheduler(file: ImportedFile, timezone: SourceZone = "UTC", *, options: ImportOptions) -> None:
    """Import what GoScheduler has.

    FILE: schedules and crons as its API shows them, or rows of its tables as CSV or JSON.
    """
    from minutehand.importing.goscheduler import read_goscheduler

    _import("go", file, lambda text: read_goscheduler(text, timezone=timezone), options)


@app.command(epilog="Example: minutehand import bigben events.csv --client shop --destination orders")
@grouped
def bigben(file: ImportedFile, options: ImportOptions) -> None:
    """Import events of BigBen.

    FILE: rows of its tables as CSV or JSON.
    """
    from minutehand.importing.bigben import read_bigben

    _import("bigben", file, read_bigben, options)


def _import(source: str, file: Path, read: "Callable[[str], Found]", options: ImportOptions) -> None:
    from minutehand.importing.entries import Fault, Unreadable, doubled, own_id
    from minutehand.importing.meaning import judge
    from minutehand.importing.receivers import NoReceiver, Receiver
    from scheduler_service.runtime.clock import SystemClock

    receiver = Receiver(options.url_template, options.destination, options.path)
    if options.apply and not options.client_id:
        fail("--apply needs --client: whose are they to be?")
    if options.url_template is not None and options.destination is not None:
        fail("Give one of --url-template and --destination.")
    try:
        receiver.check()
        found = read(_text(file))
    except (Unreadable, NoReceiver) as error:
        fail(f"{file}: {error}" if isinstance(error, Unreadable) else str(error))
    now = SystemClock().wall_ms()
    judged = [(own_id(source, one), judge(one, now=now)) for one in found.entries]
    faults = [*found.faults, *(Fault(one.entry.place, one.fault) for _, one in judged if one.fault is not None)]
    faults += doubled((name, one.entry) for name, one in judged)
    try:
        planned = [
            _Planned(name, one, receiver.callback(one.entry, name), _left_out(one, now))
            for name, one in judged
            if one.fault is None
        ]
    except NoReceiver as error:
        if options.apply:
            fail(str(error))
        planned = [_Planned(name, one, None, _left_out(one, now)) for name, one in judged if one.fault is None]
    if options.apply and faults:
        _show(found, planned, faults, options, applied=None)
        fail("Nothing was put, as these faults come first. Correct them, or take them out of the file.")
    applied = _apply(planned, options) if options.apply else None
    _show(found, planned, faults, options, applied=applied)
    if faults:
        raise typer.Exit(1)


def _text(file: Path) -> str:
    """The file's text. Exits where it is none."""
    try:
        # Some programs begin UTF-8 with the mark that tells it from UTF-16.
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        fail(f"{file} can't be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        fail(f"{file} is no text in UTF-8: its byte {error.start + 1:,} is 0x{byte:02x}. Save it as UTF-8.")


@dataclass(frozen=True, slots=True)
class _Planned:
    """`left_out`: why it is not put."""

    own_id: str
    judged: "Judged"
    callback: Any
    left_out: str | None


def _left_out(one: "Judged", now: int) -> str | None:
    if one.entry.off:
        return "off in the source"
    if one.entry.at is not None and one.meant is not None and one.meant.fires[0] <= now:
        return "its time has passed"
    return None


def _apply(planned: Sequence[_Planned], options: ImportOptions) -> dict[str, str]:
    """What became of each that was put, by its id. Says where it stopped if the API refuses one."""
    from minutehand.client import MinutehandClientError

    done: dict[str, str] = {}
    with connect(options.url, options.key) as api:
        client = api.client(options.client_id)
        for one in planned:
            if one.left_out is None:
                try:
                    done[one.own_id] = _put(client, one)
                except MinutehandClientError:
                    stopped = f"Stopped at {one.own_id}, {one.judged.entry.place}; before it:"
                    typer.echo(printable(f"{stopped} {_told(planned, done) or 'nothing was put'}."), err=True)
                    raise
    return done


def _put(client: "ClientScope", planned: _Planned) -> str:
    """One of _RESULTS."""
    from minutehand.client import Callback, Dst

    one, callback = planned.judged.entry, Callback(**planned.callback)
    if one.expression is None:
        return _put_call(client, planned, callback)
    options: CronOptions = {
        "dialect": one.dialect,
        "dst": Dst(gap=one.gap, fold=one.fold),
        "overlap": one.overlap,
        "starts_at": one.starts_at,
        "ends_at": one.ends_at,
        "max_fires": one.max_fires,
        "spread_seconds": one.spread_seconds,
        "label": planned.own_id,
    }
    if one.catch_up_seconds is not None:
        options["catch_up_seconds"] = one.catch_up_seconds
    before = _present(lambda: client.crons.get(planned.own_id))
    after = client.crons.put(planned.own_id, callback, expression=one.expression, timezone=one.timezone, **options)
    if before is None or before.state == "deleted":
        return "created"
    return "unchanged" if after.revision == before.revision else "changed"


def _put_call(client: "ClientScope", planned: _Planned, callback: "Callback") -> str:
    """One of _RESULTS. A call that is the same is not put again: another one would take its place."""
    from minutehand.client import LocalTime
    from minutehand.importing.meaning import is_local

    one, own = planned.judged.entry, planned.own_id
    assert one.at is not None
    present = _present(lambda: client.schedules.get_by_key(own))
    if present is not None and _is_same(present, planned):
        return "unchanged"
    due: Any = LocalTime(local=one.at, timezone=one.timezone) if is_local(one) else one.at
    client.schedules.put(own, callback, due=due, window_seconds=one.spread_seconds, label=own)
    return "changed" if present is not None and present.state in _WAITING else "created"


def _present(get: Callable[[], T]) -> T | None:
    from minutehand.client import NotFound

    try:
        return get()
    except NotFound:
        return None


def _is_same(present: "Schedule", planned: _Planned) -> bool:
    """Whether what is under an entry's id waits, and is the same call."""
    from minutehand.importing.receivers import is_same_call

    assert planned.judged.meant is not None
    sent, (due,) = present.callback, planned.judged.meant.fires
    asked = present.nominal_due or present.due
    return (
        present.state == "scheduled"
        and round(asked.timestamp() * 1000) == due
        and (present.due - asked).total_seconds() <= planned.judged.entry.spread_seconds
        and is_same_call(
            planned.callback,
            {name: getattr(sent, name) for name in ("url", "destination", "path", "method", "headers", "body")},
        )
    )


def _show(
    found: "Found",
    planned: Sequence[_Planned],
    faults: Sequence[Any],
    options: ImportOptions,
    *,
    applied: Mapping[str, str] | None,
) -> None:
    if options.as_json:
        print_json({
            "entries": [_document(one, applied or {}) for one in planned],
            "left_out": [{"place": one.place, "reason": one.reason} for one in found.left_out],
            "faults": [{"place": fault.place, "reason": fault.reason} for fault in faults],
            "applied": None if applied is None else _counted(planned, applied),
        })  # fmt: skip
        return
    for one in planned:
        _show_one(one)
    if not options.apply and any(one.callback is None for one in planned):
        say("Nothing says yet where the calls go: give --url-template, or --destination.")
    for other in found.left_out:
        say(f"{other.place}: left out: {other.reason}")
    for fault in faults:
        say(f"{fault.place}: {fault.reason}")
    differing = sum(one.judged.differs for one in planned)
    put = sum(one.left_out is None for one in planned)
    left_out = len(planned) - put + len(found.left_out)
    say(f"{put:,} to import, {left_out:,} left out, {len(faults):,} faults; {differing:,} differ without a dialect.")
    if applied is None:
        if not options.apply:
            say("Nothing was put; --apply puts them.")
    else:
        say(_told(planned, applied) or "There was nothing to put.")


def _counted(planned: Sequence[_Planned], applied: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """How many crons and calls were created, changed, and there already."""
    counted = {what: dict.fromkeys(_RESULTS, 0) for what in ("crons", "calls")}
    for one in planned:
        if one.own_id in applied:
            counted["calls" if one.judged.entry.expression is None else "crons"][applied[one.own_id]] += 1
    return counted


def _told(planned: Sequence[_Planned], applied: Mapping[str, str]) -> str:
    return "; ".join(
        f"{what}: {', '.join(f'{count:,} {result}' for result, count in results.items())}"
        for what, results in _counted(planned, applied).items()
        if any(results.values())
    )


def _call_told(call: "Mapping[str, Any]") -> str:
    """Such as `POST https://jobs.example/run/x, 57 bytes: {"source":...`."""
    where = call["url"] or f"destination {call['destination']}{call['path'] or ''}"
    headers = f", headers {', '.join(call['headers'])}" if call["headers"] else ""
    begin = call["body_begin"].replace("\n", "\\n")
    more = "..." if len(call["body_begin"].encode()) < call["body_bytes"] else ""
    body = f"{call['body_bytes']:,} bytes: {begin}{more}" if begin else "no body"
    return f"{call['method'] + ' ' if call['method'] else ''}{where}{headers}, {body}"


def _show_one(planned: _Planned) -> None:
    from minutehand.importing.receivers import call_shown

    judged = planned.judged
    one, meant = judged.entry, judged.meant
    assert meant is not None
    left_out = "" if planned.left_out is None else f" (left out: {planned.left_out})"
    say(f"{planned.own_id}: {one.place}, {one.written}{left_out}")
    say(f"  {meant.words}")
    say(f"  {'  '.join(map(_instant, meant.fires)) or 'no fire ahead'}")
    if planned.callback is not None:
        say(f"  -> {_call_told(call_shown(planned.callback))}")
    if judged.differs:
        plain = judged.plain
        told = f"refused: {judged.plain_fault}" if plain is None else "  ".join(map(_instant, plain.fires))
        say(f"  DIFFERS without a dialect: {told}")
    for note in one.notes:
        say(f"  note: {note}")


def _document(planned: _Planned, applied: Mapping[str, str]) -> dict[str, Any]:
    from minutehand.importing.receivers import call_shown

    judged = planned.judged
    one, meant, plain = judged.entry, judged.meant, judged.plain
    assert meant is not None
    return {
        "id": planned.own_id,
        "place": one.place,
        "name": one.name,
        "written": one.written,
        "expression": one.expression,
        "dialect": None if one.expression is None else one.dialect,
        "timezone": one.timezone,
        "words": meant.words,
        "next_fires": [_instant(at) for at in meant.fires],
        "without_dialect": None if plain is None else [_instant(at) for at in plain.fires],
        "differs": judged.differs,
        "call": None if planned.callback is None else call_shown(planned.callback),
        "left_out": planned.left_out,
        "applied": applied.get(planned.own_id),
        "notes": list(one.notes),
    }


def _instant(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
