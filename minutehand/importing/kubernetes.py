"""CronJobs of Kubernetes, as `kubectl get cronjobs -o json` prints them; YAML where PyYAML is installed. Pure.

Their rules are read by robfig/cron: five fields as in cronie, with three differences, which are translated here:

    5/10    from 5 to the field's end in steps of 10; cronie refuses it
    ?       any value, as *
    */2     in a day field restricts it: with a weekday beside it, either of the two matches. Only *, */1 and ? leave a
            field open, anywhere in a list

Times that a change of clocks skips are left out, and repeated ones fire twice.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, Unreadable, documents, readable, refuse_empty
from minutehand.importing.shapes import Misfit, Node, entry_of

WHAT: Final = "kubectl get cronjobs --all-namespaces -o json"
_LASTS: Final = (59, 23, 31, 12, 6)
_FIRSTS: Final = (0, 0, 1, 1, 0)
_STEP: Final = re.compile(r"([0-9A-Za-z]+)/([0-9]+)")
_DAYS: Final = (2, 4)
_OVERLAPS: Final = {"Forbid": "skip", "Replace": "cancel_other"}
"""By `concurrencyPolicy`."""
_OPEN: Final = re.compile(r"\*(?:/0*1)?")
"""A part of a day field that leaves all of it open; a step of 1 is none."""
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")


def read_kubernetes(text: str, *, timezone: str) -> Found:
    """`timezone`: of the controller, for jobs that name none. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, value in _jobs(text, faults):
        try:
            job = entry_of(value)
            if job.text("kind") in (None, "CronJob"):
                entries.append(_entry(place, job, timezone))
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    return Found(entries, faults)


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
    return Entry(
        place=place,
        name=f"{namespace}.{name}",
        parts=(namespace, name),
        written=written,
        expression=translated(written),
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
