"""The JSON Schema of records (draft 2020-12), made from the types that the API decodes."""

from typing import Any

import msgspec

from scheduler_service.domain.schedule_keys import KEY_PATTERN
from scheduler_service.usecases.schedule_request import ScheduleRequest

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def record_schema() -> dict[str, Any]:
    """The schema of a record's value that is no CloudEvent."""
    _, components = msgspec.json.schema_components([ScheduleRequest], ref_template="#/$defs/{name}")
    request = components.pop("ScheduleRequest")
    fields = {name: value for name, value in request["properties"].items() if name != "key"}
    key = {"type": "string", "pattern": KEY_PATTERN, "description": "Left out: the record's own key."}
    asks = {"type": "object", "required": ["callback"], "additionalProperties": False}
    return {
        "$schema": DIALECT,
        "title": "A record for `minutehand ingest kafka`",
        "oneOf": [{"$ref": "#/$defs/create"}, {"$ref": "#/$defs/put"}, {"$ref": "#/$defs/cancel"}],
        "$defs": {
            "create": {
                **asks,
                "description": "Makes a schedule. A delay counts from the record's timestamp.",
                "properties": {"op": {"const": "create"}, **fields},
            },
            "put": {
                **asks,
                "required": ["op", "callback"],
                "description": "Makes a schedule under a key: of those of one key, only the last is called.",
                "properties": {"op": {"const": "put"}, "key": key, **fields},
            },
            "cancel": {
                "type": "object",
                "required": ["op"],
                "additionalProperties": False,
                "description": "Cancels what a key names, or the schedule of an id; give at most one of them.",
                "properties": {
                    "op": {"const": "cancel"},
                    "key": key,
                    "schedule_id": {"type": "string", "format": "uuid"},
                },
            },
            **components,
        },
    }
