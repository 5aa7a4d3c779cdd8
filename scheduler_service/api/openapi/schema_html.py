"""JSON Schemas as short HTML texts, for the page."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from scheduler_service.api.http.html import inline

Schema = Mapping[str, Any]

_BOUNDS: Final[Mapping[str, str]] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or fewer",
    "minItems": "{} items or more",
    "maxItems": "{} items or fewer",
    "maxProperties": "{} names or fewer",
    "pattern": "matches {}",
    "default": "else {}",
}


def schema_text(schema: Schema) -> str:
    """One line about a schema: its type, its bounds, and links to what it refers to."""
    bounds = [text.format(f"<code>{_value(schema[name])}</code>") for name, text in _BOUNDS.items() if name in schema]
    return ", ".join([_type(schema), *bounds])


def schema_rows(schema: Schema) -> Iterator[str]:
    """A table row for each field of an object."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        mark = ", required" if name in required else ""
        yield (
            f"<tr><td><code>{escape(name)}</code></td><td>{schema_text(field)}{mark}</td>"
            f"<td>{inline(field.get('description', ''))}</td></tr>\n"
        )


def _type(schema: Schema) -> str:
    if (reference := schema.get("$ref")) is not None:
        name = reference.rsplit("/", 1)[-1]
        return f'<a href="#schema-{name}">{escape(name)}</a>'
    if (choices := schema.get("anyOf")) is not None:
        return " or ".join(schema_text(choice) for choice in choices)
    if (values := schema.get("enum")) is not None:
        return " or ".join(f"<code>{_value(value)}</code>" for value in values)
    if "const" in schema:
        return f"<code>{_value(schema['const'])}</code>"
    if schema.get("type") == "array":
        return f"array of {schema_text(schema['items'])}" if schema.get("items") else "array"
    if schema.get("type") == "object" and isinstance(values := schema.get("additionalProperties"), dict):
        return f"object of {schema_text(values)}" if values else "object"
    name = escape(str(schema.get("type", "anything")))
    return f"{name} ({escape(schema['format'])})" if "format" in schema else name


def _value(value: Any) -> str:
    return escape(value if isinstance(value, str) else json.dumps(value))
