"""The form of a client's settings: from the settings to the fields, and from the fields to what differs. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from scheduler_service.console.forms import json_of, number_of
from scheduler_service.domain.verbs import VERBS

_CHOSEN: Final = ("in_doubt", "read_consistency", "write_consistency")
_RETRY: Final = ("max_attempts", "base_seconds", "cap_seconds", "deadline_seconds")
_OBJECTS: Final = ("hosts", "flows")


def settings_fields(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the form begins with."""
    fields = {name: settings[name] for name in _CHOSEN}
    fields["timeout_seconds"] = f"{settings['timeout_seconds']:.15g}"
    fields |= {f"retry.{name}": f"{settings['retry'][name]:.15g}" for name in _RETRY}
    fields["retry.final_statuses"] = " ".join(str(one) for one in settings["retry"]["final_statuses"])
    fields["late_policy.kind"] = settings["late_policy"]["kind"]
    fields["late_policy.after_seconds"] = f"{settings['late_policy']['after_seconds']:.15g}"
    fields |= {f"verb.{verb}": "on" for verb in settings["receiver_verbs"]}
    fields |= {name: json.dumps(settings[name], indent=2) for name in _OBJECTS}
    return fields | ({"event_feed": "on"} if settings["event_feed"] else {})


def settings_request(form: Mapping[str, str], present: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that differ from `present`, each as a whole, and faults by pointer."""
    faults: dict[str, str] = {}
    asked: dict[str, Any] = {name: form.get(name, "").strip() for name in _CHOSEN}
    asked["timeout_seconds"] = number_of(form.get("timeout_seconds", "").strip())
    asked["retry"] = {name: number_of(form.get(f"retry.{name}", "").strip()) for name in _RETRY}
    statuses = form.get("retry.final_statuses", "").replace(",", " ").split()
    asked["retry"]["final_statuses"] = [number_of(one) for one in statuses]
    asked["late_policy"] = {
        "kind": form.get("late_policy.kind", ""),
        "after_seconds": number_of(form.get("late_policy.after_seconds", "").strip() or "0"),
    }
    asked["receiver_verbs"] = [verb for verb in VERBS if f"verb.{verb}" in form]
    asked["event_feed"] = "event_feed" in form
    asked |= {name: json_of(form.get(name, ""), f"/{name}", faults) for name in _OBJECTS}
    kept = {**present, "receiver_verbs": [verb for verb in VERBS if verb in present["receiver_verbs"]]}
    return {name: value for name, value in asked.items() if value != kept[name]}, faults
