"""The form of a destination: from its fields to the request, and from a destination to the fields. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from scheduler_service.api.resources.schedule_views import MASK
from scheduler_service.console.forms import given, headers_of, json_of, numbers
from scheduler_service.domain.targets import HTTP

_NUMBERS: Final = ("timeout_seconds", "max_per_second", "max_in_flight")
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "certificate": ("chain", "key"),
    "token": ("client_id", "client_secret", "token_url", "issuer", "scope", "audience"),
    "proxy": ("url", "username", "password"),
    "cloudevents": ("type", "source"),
}
"""Objects of a request. Their fields in the form have both names, with a dot."""


def destination_request(
    form: Mapping[str, str], present: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The request, and faults by pointer. `present`: the destination that is changed; what the form has no field for
    stays as it is there."""
    faults: dict[str, str] = {}
    body: dict[str, Any] = {**given(form, ("url", "kind")), **numbers(form, _NUMBERS)}
    if body.get("kind", HTTP) == HTTP:
        body |= given(form, ("method",))
    if headers := headers_of(form.get("headers", ""), faults):
        body["headers"] = headers
    for name, fields in _PARTS.items():
        found = given(form, [f"{name}.{field}" for field in fields])
        if found:
            body[name] = {key.partition(".")[2]: value for key, value in found.items()}
    if "token" in body:
        body["token"]["authentication"] = form.get("token.authentication", "basic")
        body["token"]["id_token"] = "token.id_token" in form
    if target := form.get("target", "").strip():
        body["target"] = json_of(target, "/target", faults)
        if MASK in target:
            faults["/target"] = f"has a secret that is not shown again: type it instead of {MASK}"
    if present is not None:
        if present["retry"] is not None:
            body["retry"] = present["retry"]
        if present["certificate"] is not None and "certificate" not in body and "without_certificate" not in form:
            faults["/certificate"] = "it has one, which is not shown again: paste it, or say that it has none any more"
    return body, faults


def destination_fields(destination: Mapping[str, Any]) -> dict[str, str]:
    """What the form begins with. Secrets are not known."""
    fields = {
        "url": destination["url"] if destination["kind"] == HTTP else "",
        "kind": destination["kind"],
        "method": destination["method"],
        "headers": "\n".join(f"{name}: {value}" for name, value in destination["headers"].items()),
    }
    fields |= {name: f"{value:g}" for name in _NUMBERS if (value := destination[name]) is not None}
    for name in ("token", "proxy", "cloudevents"):
        part = destination[name] or {}
        fields |= {f"{name}.{key}": value for key, value in part.items() if isinstance(value, str)}
    if (destination["token"] or {}).get("id_token"):
        fields["token.id_token"] = "on"
    if destination["target"] is not None:
        fields["target"] = json.dumps(destination["target"], indent=2)
    return fields
