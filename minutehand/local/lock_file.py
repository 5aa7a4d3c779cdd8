"""The committed list of jars: `jgo.lock.toml`, one table for each set of jars that is started together.

    [cassandra]
    root = "org.apache.cassandra:cassandra-all:5.0.9"
    provided = []
    jars = [
        { group = "…", artifact = "…", version = "…", classifier = "", size = 123, sha256 = "…" },
    ]

The set was resolved from `root`; `provided` are artifacts left out of it because the program that uses the set brings
its own. `python -m minutehand.local.lock` writes the file.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LOCK_FILE = Path(__file__).with_name("jgo.lock.toml")


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One file of a Maven repository. `size` is in bytes, `sha256` in hex."""

    group: str
    artifact: str
    version: str
    classifier: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"

    @property
    def path(self) -> PurePosixPath:
        """Its path relative to the root of any Maven repository."""
        return PurePosixPath(*self.group.split("."), self.artifact, self.version, self.filename)

    @property
    def coordinate(self) -> str:
        """In jgo's notation: group:artifact[:jar:classifier]:version."""
        middle = f"jar:{self.classifier}:" if self.classifier else ""
        return f"{self.group}:{self.artifact}:{middle}{self.version}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """The class path of one program, or an addition to it."""

    name: str
    root: str
    jars: tuple[Jar, ...]
    provided: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version of the root."""
        return self.root.rsplit(":", 1)[-1]


def read_lock(name: str, path: Path = LOCK_FILE) -> JarSet:
    """The set called `name`. Raises `KeyError` when the lock has none."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))[name]
    jars = tuple(Jar(**jar) for jar in table["jars"])
    return JarSet(name=name, root=table["root"], jars=jars, provided=tuple(table["provided"]))


def read_sets(path: Path = LOCK_FILE) -> list[JarSet]:
    """Every set in the lock."""
    return [read_lock(name, path) for name in tomllib.loads(path.read_text(encoding="utf-8"))]


def render_lock(sets: Iterable[JarSet]) -> str:
    """The text of the lock file, the same for the same sets in any order."""
    lines = ["# Written by `python -m minutehand.local.lock`; only `root` and `provided` are edited by hand."]
    for jar_set in sorted(sets, key=lambda one: one.name):
        lines += [
            "",
            f"[{jar_set.name}]",
            f'root = "{jar_set.root}"',
            f"provided = {json.dumps(jar_set.provided)}",
            "jars = [",
        ]
        for jar in sorted(jar_set.jars):
            fields = ", ".join(
                f'{key} = "{getattr(jar, key)}"' for key in ("group", "artifact", "version", "classifier")
            )
            lines.append(f'    {{ {fields}, size = {jar.size}, sha256 = "{jar.sha256}" }},')
        lines.append("]")
    return "\n".join(lines) + "\n"
