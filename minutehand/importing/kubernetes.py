"""CronJobs of Kubernetes, as `kubectl get cronjobs -o json` prints them; YAML where PyYAML is installed. Pure.

Their rules are read by robfig/cron: five fields as in cronie, with differences, which are translated here:

    5/10            from 5 to the field's end in steps of 10; cronie refuses it
    ?               any value, as *
    */2             in a day field restricts it: with a weekday beside it, either of the two matches. Only *, */1 and ?
                    leave a field open, anywhere in a list
    @every 1h30m    our rule `every 90 minutes`: both count real time, here from the job's creation if the file has it

Times that a change of clocks skips are left out, and repeated ones fire twice.
"""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, LeftOut, Unreadable, documents, readable, refuse_empty
from minutehand.importing.shapes import Misfit, Node, entry_of
from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT

WHAT: Final = "kubectl get cronjobs --all-namespaces -o json"
_LASTS: Final = (59, 23, 31, 12, 6)
_FIRSTS: Final = (0, 0, 1, 1, 0)
_STEP: Final = re.compile(r"([0-9A-Za-z]+)/([0-9]+)")
_DAYS: Final = (2, 4)
_OVERLAPS: Final = {"Forbid": "skip", "Replace": "cancel_other"}
"""By `concurrencyPolicy`."""
_OPEN: Final = re.compile(r"\*(?:/0*1)?")
"""A part of a day field that leaves all of it open; a step of 1 is none."""
_EVERY: Final = re.compile(r"@every\s+(\S+)")
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ns|us|µs|ms|s|m|h)")
"""One part of a duration as Go writes it."""
_SECONDS: Final = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")


def read_kubernetes(text: str, *, timezone: str) -> Found:
    """`timezone`: of the controller, for jobs that name none. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    left_out: list[LeftOut] = []
    for place, value in _jobs(text, faults):
        try:
            job = entry_of(value)
            kind = job.text("kind") or "CronJob"
            if kind == "CronJob":
                entries.append(_entry(place, job, timezone))
            else:
                left_out.append(LeftOut(place, f"is of the kind {kind}, no CronJob"))
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    return Found(entries, faults, left_out)


def _jobs(text: str, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    """Each object with its place, out of lists. Raises Unreadable."""
    is_json = text.lstrip()[:1] in ("{", "[")
    for place, one in list(documents(text, WHAT, faults) if is_json else _yaml(text, faults)):
        if one.values.get("items") is None:
            yield place, one.values
            continue
        try:
            yield from ((f"{place}, items[{at}]", item) for at, item in enumerate(one.listed("items")))
        except Misfit as error:
            faults.append(Fault(place, str(error)))


def _yaml(text: str, faults: list[Fault]) -> Iterator[tuple[str, Node]]:
    refuse_empty(text, WHAT)
    try:
        # No dependency of ours: taken where it is.
        yaml = import_module("yaml")
    except ImportError:
        raise Unreadable(f"is no JSON, and PyYAML, which reads YAML, is not installed: take `{WHAT}`") from None
    try:
        loaded = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise Unreadable(f"is neither JSON nor YAML ({WHAT}): {why}{where}") from error
    except RecursionError:
        raise Unreadable(f"is nested too deeply to be read ({WHAT})") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        # How PyYAML ends at values that do not fit their tag, such as the date 2027-13-45 or `!!bool 5`.
        raise Unreadable(f"is no YAML that can be read ({WHAT}): {error}") from error
    for number, value in enumerate(loaded, 1):
        # Nothing between two lines of --- is no document.
        node = None if value is None else readable(f"document {number}", value, faults)
        if node is not None:
            yield f"document {number}", node


def _entry(place: str, job: Node, timezone: str) -> Entry:
    """Raises Misfit."""
    spec, metadata = job.node("spec"), job.node("metadata")
    name, written = metadata.needed("name"), spec.needed("schedule").strip()
    namespace, zone = metadata.text("namespace") or "default", spec.text("timeZone") or timezone
    prefixed = _ZONE.fullmatch(written)
    if prefixed is not None:
        zone, written = prefixed.groups()
    containers = spec.node("jobTemplate").node("spec").node("template").node("spec")
    if not containers.values.get("containers"):
        raise Misfit(f"{containers.where('containers')} is missing or empty")
    policy, notes = spec.text("concurrencyPolicy"), []
    if policy == "Replace":
        notes.append(
            "concurrencyPolicy Replace: a run that waits for its retry is cancelled; a call that is under way is not "
            "stopped, and the next one waits for its end"
        )
    minutes, starts_at = _interval(written), None
    if minutes is not None:
        starts_at = metadata.text("creationTimestamp")
        notes.append(
            "counts from the import; Kubernetes counts from the job's creation"
            if starts_at is None
            else "counts from the job's creation; Kubernetes counts from its last run if its schedule was changed since"
        )
    return Entry(
        place=place,
        name=f"{namespace}.{name}",
        parts=(namespace, name),
        written=written,
        expression=translated(written) if minutes is None else f"every {minutes} minutes",
        dialect=DEFAULT_DIALECT if minutes is None else "minutehand",
        starts_at=starts_at,
        timezone=zone,
        gap="skip",
        fold="both",
        overlap=_OVERLAPS.get(policy or "", "allow"),
        catch_up_seconds=spec.whole("startingDeadlineSeconds", least=0),
        off=spec.flag("suspend", False),
        payload={
            "source": "kubernetes",
            "namespace": namespace,
            "name": name,
            "containers": [_container(one) for one in containers.nodes("containers")],
        },
        notes=tuple(notes),
    )


def _container(one: Node) -> dict[str, Any]:
    """Raises Misfit."""
    told = {"name": one.text("name"), "image": one.text("image")}
    lists = {name: one.texts(name) for name in ("command", "args")}
    return {name: value for name, value in (told | lists).items() if value}


def _interval(written: str) -> int | None:
    """The minutes of an interval; None for a rule of another form. Raises Misfit where it is no whole minutes."""
    form = _EVERY.fullmatch(written)
    if form is None:
        return None
    parts = _DURATION.findall(form[1])
    if "".join(map("".join, parts)) != form[1]:
        raise Misfit(f"spec.schedule: {form[1]!r:.40} is no duration, such as 1h30m")
    seconds = sum(Fraction(number) * _SECONDS[unit] for number, unit in parts)
    minutes = math.ceil(seconds / 60)
    if seconds != minutes * 60 or not minutes:
        near = f"@every {max(minutes, 1)}m"
        raise Misfit(f"spec.schedule: {written:.40} is no whole number of minutes, as intervals are here: write {near}")
    return minutes


def translated(written: str) -> str:
    """The rule as cronie reads it with the meaning that robfig/cron gives it. What is no rule stays as it is."""
    fields = written.split()
    if len(fields) != 5:
        return written
    made = [_field(text, last) for text, last in zip(fields, _LASTS, strict=True)]
    for place in _DAYS:
        parts = made[place].split(",")
        if any(_OPEN.fullmatch(part) for part in parts):
            made[place] = "*"
        elif "*" in made[place]:
            # cronie takes a field that begins with * for an open one.
            every = f"{_FIRSTS[place]}-{_LASTS[place]}"
            made[place] = ",".join(part.replace("*", every) for part in parts)
    return " ".join(made)


def _field(text: str, last: int) -> str:
    parts = []
    for part in text.split(","):
        step = _STEP.fullmatch(part)
        parts.append(f"{step[1]}-{last}/{step[2]}" if step is not None else part.replace("?", "*"))
    return ",".join(parts)
