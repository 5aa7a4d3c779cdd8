"""The TypeScript SDK has the types of the document, the version of the server, and nothing to install beside it."""

import json

import pytest

from minutehand.version import VERSION
from scheduler_service.api.openapi.document import build_document
from scheduler_service.api.resources import ROUTES
from sdk.typescript_types import PACKAGE, types_of, typescript_files
from tests.architecture.sources import ROOT


def test_what_is_committed_is_what_the_command_writes() -> None:
    for path, text in typescript_files():
        assert path.read_text() == text, f"{path.name}: make sdk"


def test_it_is_of_the_servers_version_and_needs_nothing() -> None:
    package = json.loads((PACKAGE / "package.json").read_text())
    assert package["version"] == VERSION
    assert {name for name in package if name.endswith("ependencies")} == {"devDependencies"}
    assert (PACKAGE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_schema_becomes_a_type() -> None:
    document = {
        "components": {
            "schemas": {
                "ThingRequest": {
                    "description": "Asked.",
                    "properties": {
                        "at": {"type": "string", "format": "date-time"},
                        "kind": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
                        "names": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["at"],
                },
                "ThingView": {
                    "properties": {
                        "at": {"type": "string", "format": "date-time"},
                        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
                    },
                    "required": ["at", "kinds"],
                },
            }
        },
        "paths": {
            "/things": {
                "post": {
                    "operationId": "make_thing",
                    "parameters": [
                        {
                            "name": "force",
                            "in": "query",
                            "description": "Even so.",
                            "schema": {"type": "string", "enum": ["true", "false"]},
                        }
                    ],
                    "responses": {"200": {"schema": {"$ref": "#/components/schemas/ThingView"}}},
                }
            }
        },
    }
    assert types_of(document).partition("next_cursor")[2].partition("}\n\n")[2] == (
        "export interface Thing {\n  at: string;\n  kinds: (\"a\" | \"b\")[];\n}\n\n"
        "/** Asked. */\nexport interface ThingRequest {\n"
        "  at: Instant;\n  kind?: \"a\" | \"b\" | null;\n  names?: readonly string[];\n}\n\n"
        "export interface MakeThingQuery {\n  /** Even so. */\n  force?: boolean;\n}\n"
    )  # fmt: skip


def test_two_schemas_of_one_name_are_refused() -> None:
    document = build_document(ROUTES)
    document["components"]["schemas"]["Schedule"] = {"type": "string"}
    with pytest.raises(ValueError, match="two schemas have the same name: Schedule"):
        types_of(document)
