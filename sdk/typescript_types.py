"""Generates what the TypeScript SDK takes from elsewhere. Usage: python sdk/typescript_types.py

`typescript/src/types.ts` holds the types of the OpenAPI document: its schemas, and the query of each operation that has
one. `typescript/package.json` and its lock have the version of `minutehand/version.py`.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from minutehand.version import VERSION
from scheduler_service.api.openapi.document import build_document
from scheduler_service.api.resources import ROUTES

PACKAGE: Final = Path(__file__).resolve().parent / "typescript"
NAMES: Final = {
    "AckView": "AckAnswer",
    "BalanceView": "MinuteBalance",
    "CallbackRequest": "Callback",
    "CallbackView": "SentCallback",
    "CertificateView": "ClientCertificate",
    "CronRequest": "NewCron",
    "DestinationRequest": "NewDestination",
    "DrainingView": "DrainingNode",
    "EventFilterRequest": "NewEventFilter",
    "FiguresView": "DestinationFigures",
    "LetterView": "DeadLetter",
    "NewSecretView": "NewSigningSecret",
    "PauseView": "CronPause",
    "PreviewView": "CronPreview",
    "ProxyView": "ForwardProxy",
    "ReadyView": "Health",
    "ReasonView": "HealthReason",
    "RetryOverride": "Retry",
    "RunView": "CronRun",
    "ScheduleRequest": "NewSchedule",
    "SecretView": "SigningSecret",
    "SubscriptionRequest": "NewSubscription",
    "TokenView": "TokenSource",
    "UsageView": "DayUsage",
}
"""Schemas under another name than their own without `View`; as in the Python SDK."""
GIVEN_BY_THE_SDK: Final = {"once", "wait_seconds"}
"""Parameters that callers can't give."""
_REF: Final = re.compile(r'"\$ref": "#/components/schemas/(\w+)"')
_WIDTH: Final = 120
_HEAD: Final = """\
// Made of the OpenAPI document by `make sdk`. Fields have the names of the API.

/** An instant: RFC 3339 with an offset, or a Date. */
export type Instant = string | Date;

/** Some items, and the cursor of those after them. */
export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}
"""


def typescript_files() -> Iterator[tuple[Path, str]]:
    """The generated files, with their content."""
    yield PACKAGE / "src" / "types.ts", types_of(build_document(ROUTES))
    for path in (PACKAGE / "package.json", PACKAGE / "package-lock.json"):
        package = json.loads(path.read_text()) | {"version": VERSION}
        if "packages" in package:
            package["packages"][""]["version"] = VERSION
        yield path, json.dumps(package, indent=2, ensure_ascii=False) + "\n"


def types_of(document: Mapping[str, Any]) -> str:
    """A module of TypeScript with the types of the document's schemas and queries."""
    schemas = document["components"]["schemas"]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    answered = _reached(schemas, [operation["responses"] for operation in operations])
    blocks = [_HEAD]
    names = [_typescript_name(name) for name in schemas]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two schemas have the same name: {', '.join(sorted(twice))}")
    for name, schema in sorted(schemas.items(), key=lambda one: _typescript_name(one[0])):
        if not name.endswith("Page"):
            blocks.append(_declaration(_typescript_name(name), schema, sent=name not in answered))
    named = {frozenset(known["enum"]): _typescript_name(name) for name, known in schemas.items() if "enum" in known}
    blocks += [block for operation in operations if (block := _query(operation, named))]
    return "\n".join(blocks)


def _reached(schemas: Mapping[str, Any], roots: Any) -> set[str]:
    """The schemas that are referred to, at any depth."""
    found: set[str] = set()
    left = set(_REF.findall(json.dumps(roots)))
    while left:
        found |= left
        left = {name for one in left for name in _REF.findall(json.dumps(schemas[one]))} - found
    return found


def _typescript_name(name: str) -> str:
    return NAMES.get(name, name.removesuffix("View"))


def _declaration(name: str, schema: Mapping[str, Any], *, sent: bool) -> str:
    comment = _comment(schema.get("description", ""))
    if "properties" not in schema:
        return comment + _typed(f"export type {name} =", _type(schema, sent=sent), margin="  ")
    required = schema.get("required", ())
    fields = "".join(
        _typed(f"  {field}{'' if field in required else '?'}:", _field_type(field, known, sent=sent), margin="    ")
        for field, known in schema["properties"].items()
    )
    return f"{comment}export interface {name} {{\n{fields}}}\n"


def _field_type(field: str, schema: Mapping[str, Any], *, sent: bool) -> str:
    """The ends of a window are instants where the document says text, too: there a cursor may take their place."""
    written = _type(schema, sent=sent)
    return written.replace("string", "Instant") if sent and field in ("from", "to") else written


def _typed(name: str, written: str, *, margin: str) -> str:
    """A name with its type; the members of a long union have lines of their own."""
    line = f"{name} {written};\n"
    if len(line) <= _WIDTH:
        return line
    union = written.removesuffix("[]").removeprefix("(").removesuffix(")")
    words = "".join(f"\n{margin}| {word}" for word in union.split(" | "))
    return f"{name} ({words}\n{margin[2:]})[];\n" if written.endswith("[]") else f"{name}{words};\n"


def _query(operation: Mapping[str, Any], named: Mapping[frozenset[str], str]) -> str | None:
    """The parameters of an operation's query; each may be left out. `named`: sets of words that have a name."""
    given = [
        parameter
        for parameter in operation["parameters"]
        if parameter.get("in") == "query" and parameter["name"] not in GIVEN_BY_THE_SDK
    ]
    if not given:
        return None
    name = "".join(word.capitalize() for word in operation["operationId"].split("_"))
    fields = "".join(
        f"{_comment(one['description'], indent=2)}  {one['name']}?: {_parameter_type(one['schema'], named)};\n"
        for one in given
    )
    return f"export interface {name}Query {{\n{fields}}}\n"


def _parameter_type(schema: Mapping[str, Any], named: Mapping[frozenset[str], str]) -> str:
    """One value need not be in a list, and a truth value need not be text."""
    if schema["type"] == "array":
        one = _parameter_type(schema["items"], named)
        return f"{one} | readonly {f'({one})' if '|' in one else one}[]"
    if (name := named.get(frozenset(schema.get("enum", ())))) is not None:
        return name
    if "enum" in schema:
        words = [json.dumps(value) for value in schema["enum"] if value not in ("true", "false")]
        return " | ".join([*(["boolean"] if len(words) < len(schema["enum"]) else []), *words])
    return _type(schema, sent=True)


def _type(schema: Mapping[str, Any], *, sent: bool) -> str:
    """`sent`: in requests only, so that what JSON can't hold, or is never changed, may be given."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name.endswith("Page"):
            return f"Page<{_typescript_name(name.removesuffix('Page'))}>"
        return _typescript_name(name)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one, sent=sent) for one in schema["anyOf"]))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    match schema.get("type"):
        case "string":
            return "Instant" if sent and schema.get("format") == "date-time" else "string"
        case "integer" | "number":
            return "number"
        case "boolean" | "null" as plain:
            return str(plain)
        case "array":
            items = _type(schema.get("items", {}), sent=sent)
            return f"{'readonly ' if sent else ''}{f'({items})' if '|' in items else items}[]"
        case "object":
            values = schema.get("additionalProperties", {})
            return f"Record<string, {_type(values, sent=sent) if values is not False else 'never'}>"
        case None:
            return "unknown"
        case other:
            raise ValueError(f"there is no type for {other!r}")


def _comment(text: str, *, indent: int = 0) -> str:
    if not text:
        return ""
    margin = " " * indent
    short = f"{margin}/** {' '.join(text.split())} */\n"
    if len(short) <= _WIDTH:
        return short
    paragraphs = [" ".join(one.split()) for one in text.split("\n\n")]
    lines = [line for one in paragraphs for line in [*textwrap.wrap(one, _WIDTH - indent - 3), ""]][:-1]
    body = "".join(f"{margin} * {line}".rstrip() + "\n" for line in lines)
    return f"{margin}/**\n{body}{margin} */\n"


if __name__ == "__main__":
    for path, text in typescript_files():
        path.write_text(text)
