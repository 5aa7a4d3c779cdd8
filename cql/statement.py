"""Named statements: the only CQL that the stores use, read from `statements/*.cql`.

One statement a section:

    -- name: schedules.open
    -- Why it is written this way.
    UPDATE ... ;

The session prepares them by name and the in-memory connection compiles them by name, so neither can get a
statement that the other doesn't know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

_NAME_MARK = "-- name:"


@dataclass(frozen=True, slots=True)
class Statement:
    """`text` is CQL without comments or semicolon, on one line; its parameters are positional."""

    name: str
    text: str

    @property
    def parameters(self) -> int:
        return self.text.count("?")

    @property
    def conditional(self) -> bool:
        """Whether it has a condition, so that it is answered applied or rejected."""
        return " IF " in self.text


def parse_statements(source: str) -> list[Statement]:
    """The sections of one file. Raises ValueError for text outside a section and for an unfinished statement."""
    statements: list[Statement] = []
    name = ""
    lines: list[str] = []
    for line in map(str.strip, source.splitlines()):
        if line.startswith(_NAME_MARK):
            if name:
                raise ValueError(f"statement {name} does not end in a semicolon")
            name = line.removeprefix(_NAME_MARK).strip()
        elif line and not line.startswith("--"):
            if not name:
                raise ValueError(f"CQL outside of a named section: {line}")
            lines.append(line)
            if line.endswith(";"):
                statements.append(Statement(name, " ".join(lines).removesuffix(";")))
                name, lines = "", []
    if name:
        raise ValueError(f"statement {name} does not end in a semicolon")
    return statements


def split_script(source: str) -> list[str]:
    """The statements of a schema file, without comments. String literals must not contain semicolons."""
    code = "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("--"))
    return [" ".join(part.split()) for part in code.split(";") if part.strip()]


def read_resource(name: str) -> str:
    """A file of this package, for example `schema.cql`."""
    return (resources.files("cql") / name).read_text(encoding="utf-8")


@cache
def load_statements() -> Mapping[str, Statement]:
    """Every statement of `statements/`, by name."""
    found: dict[str, Statement] = {}
    files = (resources.files("cql") / "statements").iterdir()
    for file in sorted((file for file in files if file.name.endswith(".cql")), key=lambda file: file.name):
        for statement in parse_statements(file.read_text(encoding="utf-8")):
            if statement.name in found:
                raise ValueError(f"two statements are named {statement.name}")
            found[statement.name] = statement
    return MappingProxyType(found)
