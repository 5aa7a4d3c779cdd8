"""CronJobs of Kubernetes, as `kubectl get cronjobs -o json` prints them; YAML where PyYAML is installed. Pure.

Their rules are read by robfig/cron: five fields as in cronie, with three differences, which are translated here:

    5/10    from 5 to the field's end in steps of 10; cronie refuses it
    ?       any value, as *
    */2     in a day field restricts it: with a weekday beside it, either of the two matches. Only *, */1 and ? leave a
            field open, anywhere in a list

Times that a change of clocks skips are left out, and repeated ones fire twice.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, Unreadable, documents

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
    for place, one in _jobs(text):
        try:
            entries.append(_entry(place, one, timezone))
        except (KeyError, TypeError, AttributeError):
            faults.append(Fault(place, "is no CronJob: it lacks metadata.name, spec.schedule or spec.jobTemplate"))
    return Found(entries, faults)


def _jobs(text: str) -> list[tuple[str, dict[str, Any]]]:
    if text.lstrip()[:1] in ("{", "["):
        found = list(documents(text, WHAT))
    else:
        found = [(f"document {number}", one) for number, one in enumerate(_yaml(text), 1)]
    jobs: list[tuple[str, dict[str, Any]]] = []
    for place, one in found:
        items = one.get("items")
        listed = (
            [(f"item {number}", item) for number, item in enumerate(items, 1)] if items is not None else [(place, one)]
        )
        jobs += [(where, job) for where, job in listed if job.get("kind", "CronJob") == "CronJob"]
    return jobs


def _yaml(text: str) -> list[dict[str, Any]]:
    try:
        # No dependency of ours: taken where it is.
        yaml = import_module("yaml")
    except ImportError:
        raise Unreadable(f"is no JSON, and PyYAML, which reads YAML, is not installed: take `{WHAT}`") from None
    try:
        return [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
    except yaml.YAMLError as error:
        raise Unreadable(f"is neither JSON nor YAML ({WHAT}): {str(error).splitlines()[0]}") from error


def _entry(place: str, job: Mapping[str, Any], timezone: str) -> Entry:
    spec, metadata = job["spec"], job["metadata"]
    written, zone = str(spec["schedule"]).strip(), spec.get("timeZone") or timezone
    prefixed = _ZONE.fullmatch(written)
    if prefixed is not None:
        zone, written = prefixed.groups()
    namespace = metadata.get("namespace", "default")
    containers = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    policy, notes = spec.get("concurrencyPolicy"), []
    if policy == "Replace":
        notes.append(
            "concurrencyPolicy Replace: a run that waits for its retry is cancelled; a call that is under way is not "
            "stopped, and the next one waits for its end"
        )
    return Entry(
        place=place,
        name=f"{namespace}.{metadata['name']}",
        parts=(namespace, metadata["name"]),
        written=written,
        expression=translated(written),
        timezone=zone,
        gap="skip",
        fold="both",
        overlap=_OVERLAPS.get(policy, "allow"),
        catch_up_seconds=spec.get("startingDeadlineSeconds"),
        off=bool(spec.get("suspend")),
        payload={
            "source": "kubernetes",
            "namespace": namespace,
            "name": metadata["name"],
            "containers": [
                {name: one[name] for name in ("name", "image", "command", "args") if name in one} for one in containers
            ],
        },
        notes=tuple(notes),
    )


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
