"""From the fields of forms to the JSON of requests. Pure.

A field that is left empty is left out. What can't be read stays as it was typed, so that the API says what is wrong.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.console.contents import HIDDEN

CALLED: Final = ("url", "destination", "path", "method")
METHODS: Final = ("POST", "PUT", "PATCH", "GET", "DELETE")
METHOD_CHOICES: Final = (("", "POST, or as the destination says"), *((one, one) for one in METHODS))
"""Values and words of the field `method` where it may be left empty."""
KEPT: Final = "keep"
"""The value of the field `callback` of a form that does not show what is called."""
WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?")


def given(form: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The fields of these names that are not empty, without spaces around them."""
    return {name: text for name in names if (text := form.get(name, "").strip())}


def given_below(form: Mapping[str, str], group: str, names: Iterable[str]) -> dict[str, str]:
    """The fields `GROUP.NAME` that are not empty, by their names."""
    return {name: text for name in names if (text := form.get(f"{group}.{name}", "").strip())}


def callback_of(form: Mapping[str, str], faults: dict[str, str], *, prefix: str = "") -> dict[str, Any]:
    """What is called, by the fields of `CALLED`, `headers` and `body`, each behind `prefix`. Adds to `faults`."""
    callback: dict[str, Any] = {name: text for name in CALLED if (text := form.get(f"{prefix}{name}", "").strip())}
    wrong: dict[str, str] = {}
    if headers := headers_of(form.get(f"{prefix}headers", ""), wrong):
        callback["headers"] = headers
    faults |= {f"/callback{pointer}": detail for pointer, detail in wrong.items()}
    if body := form.get(f"{prefix}body", ""):
        # Browsers send line breaks as two characters.
        callback["body"] = body.replace("\r\n", "\n")
    return callback


def callback_fields(callback: Mapping[str, Any]) -> dict[str, str]:
    """The fields of what is called, each behind `callback.`, in the clear but for what the API masks."""
    fields = {f"callback.{name}": callback[name] for name in CALLED if name in callback}
    fields["callback.headers"] = "\n".join(f"{name}: {value}" for name, value in (callback["headers"] or {}).items())
    return {**fields, "callback.body": callback.get("body", "")}


def instant_of(text: str) -> str:
    """An instant of a field that asks for UTC: browsers send it without a zone, and perhaps without seconds."""
    text = text.strip()
    if (match := WITHOUT_ZONE.fullmatch(text)) is None:
        return text
    return text.replace(" ", "T") + ("Z" if match[1] else ":00Z")


def number_of(text: str) -> int | float | str:
    """A number, or what was typed instead."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def numbers(form: Mapping[str, str], names: Iterable[str]) -> dict[str, int | float | str]:
    return {name: number_of(text) for name, text in given(form, names).items()}


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def headers_of(text: str, faults: dict[str, str]) -> dict[str, str]:
    """A header a line, as `Name: value`. A value that the console itself masks, or the API, is no value: then it has to
    be typed again. Adds to `faults`."""
    headers: dict[str, str] = {}
    for line in lines_of(text):
        name, colon, value = (one.strip() for one in line.partition(":"))
        if not colon or not name:
            faults["/headers"] = f"a line must be a name, a colon and a value: {line[:40]!r}"
        elif value in (MASK, HIDDEN):
            faults["/headers"] = f"the value of {name} is not shown again: type it, or remove the line"
        headers[name] = value
    return headers


def json_of(text: str, pointer: str, faults: dict[str, str]) -> Any:
    """Adds to `faults` what is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        faults[pointer] = f"is no JSON: {error}"
    except RecursionError:
        faults[pointer] = "is nested too deeply"
    return None
