"""The forms of a schedule: from their fields to the requests, and from a schedule to the fields. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.console.forms import (
    CALLED,
    KEPT,
    WITHOUT_ZONE,
    callback_fields,
    callback_of,
    given,
    given_below,
    instant_of,
    json_of,
    lines_of,
    number_of,
    numbers,
)
from scheduler_service.domain.instants import parse_instant

_TEXTS: Final = ("key", "label", "ordering_key", "on_success", "on_failure")
_NUMBERS: Final = ("window_seconds", "timeout_seconds", "skip_after_seconds", "succeed_within_seconds")
_CHANGED_TEXTS: Final = ("label",)
_CHANGED_NUMBERS: Final = ("timeout_seconds", "skip_after_seconds", "succeed_within_seconds")
_RETRY: Final = ("max_attempts", "base_seconds", "cap_seconds", "deadline_seconds")
_FLOW: Final = ("flow_rate", "flow_parallelism")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(seconds?|s|minutes?|min|m|hours?|h|days?|d)", re.IGNORECASE)
_LONGEST_SPAN: Final = 64
"""Characters. The pattern takes time by the square of the length: for a field as large as a form, hours."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def when_of(form: Mapping[str, str]) -> dict[str, Any]:
    """`due` as an instant, as a local time in the field `timezone`, or `in 2 h 30 min`. What can't be read is passed
    on, so that the API says what is wrong; nothing for an empty field."""
    text, zone = form.get("due", "").strip(), form.get("timezone", "").strip()
    if not text:
        return {}
    if (seconds := span_of(text)) is not None:
        return {"delay_seconds": seconds}
    if zone not in ("", "UTC") and WITHOUT_ZONE.fullmatch(text):
        return {"due": {"local": text.replace(" ", "T"), "timezone": zone}}
    return {"due": instant_of(text)}


def span_of(text: str) -> float | None:
    """The seconds of `in 90 s`, `2 h 30 min`, `now`; None: it is no such span."""
    if len(text) > _LONGEST_SPAN:
        return None
    left = text.strip().lower().removeprefix("in ").strip()
    if left == "now":
        return 0.0
    found = _SPAN.findall(left)
    if not found or _SPAN.sub("", left).strip():
        return None
    return sum(float(count) * _SECONDS[unit[0].lower()] for count, unit in found)


def schedule_request(form: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The request that creates one, and faults by pointer."""
    faults: dict[str, str] = {}
    callback = callback_of(form, faults, prefix="callback.")
    if "callback.is_json" in form and "body" in callback:
        callback["json"] = json_of(callback.pop("body"), "/callback/json", faults)
    callback |= given_below(form, "callback", ("flow_key",))
    callback |= {name: number_of(text) for name, text in given_below(form, "callback", _FLOW).items()}
    if (within := form.get("callback.ack", "").strip()) != "":
        callback["ack"] = {"within_seconds": number_of(within)}
    body: dict[str, Any] = {"callback": callback, **when_of(form), **given(form, _TEXTS), **numbers(form, _NUMBERS)}
    if retry := _retry(form):
        body["retry"] = retry
    return body, faults


def unread_due(when: Mapping[str, Any]) -> str | None:
    """What is wrong with a due of `when_of` that is neither a span nor a time; None: nothing."""
    due = when.get("due")
    if not isinstance(due, str):
        return None
    try:
        parse_instant(due)
    except ValueError:
        return "must be a span such as in 10 min, or a time such as 2026-12-24 18:00 or 2026-12-24T17:00:00Z"
    return None


def _retry(form: Mapping[str, str]) -> dict[str, Any]:
    retry: dict[str, Any] = {name: number_of(text) for name, text in given_below(form, "retry", _RETRY).items()}
    if statuses := form.get("retry.final_statuses", "").replace(",", " ").split():
        retry["final_statuses"] = [number_of(one) for one in statuses]
    return retry


def schedule_fields(schedule: Mapping[str, Any]) -> dict[str, str]:
    """What the form of a change begins with, all but the callback."""
    fields = {name: schedule[name] or "" for name in _CHANGED_TEXTS}
    fields |= {name: _text(schedule.get(name)) for name in _CHANGED_NUMBERS}
    retry = schedule["retry"] or {}
    fields |= {f"retry.{name}": _text(retry.get(name)) for name in _RETRY}
    fields["retry.final_statuses"] = " ".join(str(one) for one in retry.get("final_statuses") or ())
    return {name: text for name, text in fields.items() if text}


def update_request(form: Mapping[str, str], present: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """What differs from `present`, as the merge patch of an update, and faults by pointer."""
    faults: dict[str, str] = {}
    patch, before = when_of(form), schedule_fields(present)
    for name in (*_CHANGED_TEXTS, *_CHANGED_NUMBERS):
        text = form.get(name, "").strip()
        if text != before.get(name, ""):
            patch[name] = None if not text else number_of(text) if name in _CHANGED_NUMBERS else text
    if _retry(form) != _retry(before):
        patch["retry"] = _retry(form) or None
    if form.get("callback") != KEPT and (callback := _callback_patch(form, present["callback"], faults)):
        patch["callback"] = callback
    return patch, faults


def _callback_patch(form: Mapping[str, str], present: Mapping[str, Any], faults: dict[str, str]) -> dict[str, Any]:
    before = callback_fields(present)
    patch: dict[str, Any] = {}
    asked = {name: form.get(f"callback.{name}", "").strip() for name in CALLED}
    changed = {name for name in CALLED if asked[name] != before.get(f"callback.{name}", "")}
    if not asked["url"] and not asked["destination"]:
        faults["/callback/url"] = "give a URL, or a destination"
    for name in ("url", "destination"):
        if name in changed and asked[name]:
            patch[name] = asked[name]
    patch |= {name: asked[name] or None for name in ("path", "method") if name in changed}
    if "destination" not in patch and not asked["destination"]:
        patch.pop("path", None)
    if (headers := _headers_patch(form, present["headers"] or {}, faults)) != {}:
        patch["headers"] = headers
    body = form.get("callback.body", "").replace("\r\n", "\n")
    if body != before["callback.body"].replace("\r\n", "\n"):
        patch["body"] = body or None
    return patch


def _headers_patch(form: Mapping[str, str], present: Mapping[str, str], faults: dict[str, str]) -> dict[str, Any]:
    """A value that the API masks stays as it is where its line was left alone."""
    asked: dict[str, str] = {}
    for line in lines_of(form.get("callback.headers", "")):
        name, colon, value = (one.strip() for one in line.partition(":"))
        if not colon or not name:
            faults["/callback/headers"] = f"a line must be a name, a colon and a value: {line[:40]!r}"
        elif value == MASK and present.get(name) != MASK:
            faults["/callback/headers"] = f"the value of {name} is not shown again: type it, or remove the line"
        asked[name] = value
    changed: dict[str, Any] = {name: value for name, value in asked.items() if present.get(name) != value}
    return changed | {name: None for name in present if name not in asked}


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
