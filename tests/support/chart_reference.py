"""Generates what the chart would otherwise state twice: `python -m tests.support.chart_reference`.

The schema of the values' `config` comes from the settings' types and descriptions, and the README's table of values
from `values.yaml` and its comments. A test compares the files with what is generated.
"""

import json
import re
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from minutehand.config import TABLES
from minutehand.config_values import Table
from minutehand.reference_pages import field_docs, summary

CHART = Path(__file__).resolve().parents[2] / "helm" / "minutehand"
BEGIN, END = "<!-- values: begin -->", "<!-- values: end -->"
PORT = {"type": "integer", "minimum": 1, "maximum": 65_535}
NARROWER: dict[str, dict[str, Any]] = {
    "api.host": {"type": "string"},
    "api.port": PORT,
    "ops.host": {"type": "string"},
    "ops.port": PORT,
    "cassandra.contact_points": {"type": "array", "items": {"type": "string"}},
    "cassandra.local_dc": {"type": "string"},
    "cassandra.port": {**PORT, "type": ["integer", "null"]},
}
"""Settings that the templates restrict more than the program: a port must be known."""
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def settings_schema() -> dict[str, Any]:
    """JSON Schema of the values' `config`. Null removes a key that the chart sets."""
    needed = {"cassandra": ["contact_points", "local_dc"], "api": ["host", "port"], "ops": ["host", "port"]}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(needed),
        "properties": {
            table.name: {
                "description": summary(table.type),
                "type": "object" if table.name in needed else ["object", "null"],
                "additionalProperties": False,
                **({"required": needed[table.name]} if table.name in needed else {}),
                "properties": dict(_keys(table)),
            }
            for table in TABLES
        },
    }


def _keys(table: Table) -> Iterator[tuple[str, dict[str, Any]]]:
    docs = field_docs(table.type)
    for name, type_ in table.typed_keys().items():
        narrower = NARROWER.get(f"{table.name}.{name}")
        yield name, {"description": docs[name].replace("`", ""), **(narrower or _type(type_))}
        if name in table.secrets:
            yield f"{name}_file", {"description": "Refused by the chart, with a sentence.", "type": "string"}


def _type(type_: Any) -> dict[str, Any]:
    if get_origin(type_) in (Union, types.UnionType):
        type_ = next(member for member in get_args(type_) if member is not type(None))
    if get_origin(type_) is tuple:
        return {"type": ["array", "null"], "items": {"type": _TYPES[get_args(type_)[0]]}}
    return {"type": [_TYPES[type_], "null"]}


def schema_text(current: str) -> str:
    """`values.schema.json` for the current settings."""
    schema = json.loads(current)
    schema["properties"]["config"] = settings_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def values_table(values: str) -> str:
    """A Markdown table of every commented value, with its default and its comment."""
    lines = ["| value | default | |", "|---|---|---|"]
    for path, default, comment in described(values):
        lines.append(f"| `{path}` | `{default}` | {comment} |" if default else f"| `{path}` | | {comment} |")
    return "\n".join(lines)


def described(values: str) -> Iterator[tuple[str, str, str]]:
    """Path, default and comment of every commented key, in the order of the file. A key below a commented one is listed
    only if it has a comment of its own.
    """
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in values.splitlines():
        if found := re.match(r"( *)# ?(.*)", line):
            comment.append(found[2])
        elif found := re.match(r"( *)([A-Za-z_0-9]+):(?: (.*))?$", line):
            depth = len(found[1])
            path = [one for one in path if one[0] < depth] + [(depth, found[2])]
            if comment:
                yield ".".join(name for _, name in path), (found[3] or "").replace("|", "\\|"), " ".join(comment)
            comment = []
        else:
            comment = []


def readme_text(current: str, values: str) -> str:
    """The README with the generated table."""
    before, _, rest = current.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{values_table(values)}\n{END}{after}"


def written() -> Mapping[Path, str]:
    """The generated text of each file."""
    schema, readme, values = (CHART / name for name in ("values.schema.json", "README.md", "values.yaml"))
    return {
        schema: schema_text(schema.read_text()),
        readme: readme_text(readme.read_text(), values.read_text()),
    }


if __name__ == "__main__":
    for file, text in written().items():
        file.write_text(text)
