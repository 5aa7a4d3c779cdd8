"""The form of a cron: from its fields to the request, and from a cron to the fields. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.console.forms import KEPT, callback_of, given, given_below, instant_of, lines_of, numbers

_TEXTS: Final = ("label", "ordering_key", "overlap", "on_success", "on_failure")
_INSTANTS: Final = ("starts_at", "ends_at")
_NUMBERS: Final = (
    "max_fires",
    "spread_seconds",
    "catch_up_seconds",
    "timeout_seconds",
    "pause_after_failures",
    "succeed_within_seconds",
)
_OF_CALENDAR: Final = ("country", "subdivision")


def rule_request(form: Mapping[str, str]) -> dict[str, Any]:
    """The part that says when it fires: all that a preview needs."""
    rule: dict[str, Any] = {
        "expression": form.get("expression", "").strip(),
        "timezone": form.get("timezone", "").strip() or "UTC",
        **given(form, ("dialect",)),
    }
    for name in ("also", "excluding"):
        if lines := lines_of(form.get(name, "")):
            rule[name] = lines
    calendar: dict[str, Any] = {**given_below(form, "calendar", _OF_CALENDAR)}
    if dates := lines_of(form.get("calendar.dates", "")):
        calendar["dates"] = dates
    if "calendar.weekends" in form:
        calendar["weekends"] = True
    if calendar:
        rule["calendar"] = {**calendar, "on": form.get("calendar.on") or "skip"}
    if dst := given_below(form, "dst", ("gap", "fold")):
        rule["dst"] = dst
    return rule


def cron_request(form: Mapping[str, str], present: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The request, and faults by pointer. `present`: the cron that is changed; what the form has no field for stays as
    it is there."""
    faults: dict[str, str] = {}
    body = {**rule_request(form), **given(form, _TEXTS), **numbers(form, _NUMBERS)}
    body |= {name: instant_of(text) for name, text in given(form, _INSTANTS).items()}
    if present is not None and present["retry"] is not None:
        body["retry"] = present["retry"]
    if present is not None and form.get("callback") == KEPT:
        body["callback"] = present["callback"]
        headers = present["callback"]["headers"]
        if headers is None or MASK in headers.values():
            faults["/callback/headers"] = "have credentials that are not shown again: open what is called, type them"
    else:
        body["callback"] = _callback(form, {} if present is None else present["callback"], faults)
    return body, faults


def _callback(form: Mapping[str, str], present: Mapping[str, Any], faults: dict[str, str]) -> dict[str, Any]:
    callback = callback_of(form, faults, prefix="callback.")
    if "body" not in callback and "body_base64" in present:
        callback["body_base64"] = present["body_base64"]
    more = ("flow_key", "flow_rate", "flow_parallelism", "ack")
    return callback | {name: present[name] for name in more if name in present}


def cron_fields(cron: Mapping[str, Any]) -> dict[str, str]:
    """What the form begins with, all but the callback."""
    calendar = cron["calendar"] or {}
    fields = {name: cron[name] for name in ("expression", "timezone", "dialect", *_TEXTS, *_INSTANTS) if cron[name]}
    fields |= {name: f"{value:.15g}" for name in _NUMBERS if (value := cron[name]) is not None}
    fields |= {name: "\n".join(cron[name]) for name in ("also", "excluding")}
    fields |= {f"calendar.{name}": calendar[name] for name in (*_OF_CALENDAR, "on") if calendar.get(name)}
    fields["calendar.dates"] = "\n".join(calendar.get("dates", ()))
    if calendar.get("weekends"):
        fields["calendar.weekends"] = "on"
    return fields | {f"dst.{name}": value for name, value in cron["dst"].items()}
