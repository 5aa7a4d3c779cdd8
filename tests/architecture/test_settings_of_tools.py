"""The settings of the project's tools name files that exist; a rule for a moved or removed file checks nothing."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.architecture import test_files, test_log_actions, test_secrets
from tests.architecture.sources import ROOMS, ROOT, name_of, project_files

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]


def modules(contract: Mapping[str, Any]) -> Iterator[str]:
    """Our rooms and modules that an import contract names, without wildcards and layer marks."""
    yield from (f"{container}.{name}" for container in contract.get("containers", ()) for name in layers(contract))
    for key in ("source_modules", "forbidden_modules", "layers", "ignore_imports", "modules"):
        for line in contract.get(key, ()):
            for name in re.split(r" -> | \| | : ", line):
                plain = re.sub(r"(\.\*+)+$", "", name.strip())
                if plain.strip("()").split(".")[0] in ROOMS:
                    yield plain


def layers(contract: Mapping[str, Any]) -> Iterator[str]:
    for line in contract["layers"]:
        yield from (name.strip("() ") for name in re.split(r" [|:] ", line))


@cache
def known() -> frozenset[Path]:
    """Project files, and the folders that they are in."""
    files = {Path(name_of(path)) for path in project_files()}
    return frozenset(files | {parent for path in files for parent in path.parents})


def missing(names: Iterable[str]) -> list[str]:
    """The entries that match no project file or folder."""
    return [name for name in names if Path(name) not in known() and not any(path.match(name) for path in known())]


def test_import_contracts_name_what_exists() -> None:
    named = {name for contract in SETTINGS["importlinter"]["contracts"] for name in modules(contract)}
    assert named
    paths = {name: name.replace(".", "/") for name in named}
    assert [name for name, path in paths.items() if missing([path]) and missing([f"{path}.py"])] == []


def test_exceptions_of_lint_and_types_name_what_exists() -> None:
    ignored = [name.removesuffix("/**") for name in SETTINGS["ruff"]["lint"]["per-file-ignores"]]
    assert missing([*ignored, *SETTINGS["mypy"]["files"]]) == []


def test_exceptions_of_these_tests_name_what_exists() -> None:
    assert missing([*test_secrets.WHERE, test_secrets.KINDS_OF_SETTINGS, test_log_actions.PASSES_ON]) == []
    assert missing(test_files.TOP_LEVEL) == []


def test_what_does_not_exist_is_found() -> None:
    assert missing(["cql", "cql/session.py", "cql/no_such.py", "helm/*", "no_such/*"]) == [
        "cql/no_such.py",
        "no_such/*",
    ]
    contract = {"layers": ["cql | (spark.gone)", "membership"], "ignore_imports": ["cql.** -> h2"]}
    assert list(modules(contract)) == ["cql", "(spark.gone)", "membership", "cql"]
    inside = {"containers": ["poller_cluster"], "layers": ["ops", "node | gone"]}
    assert list(modules(inside)) == ["poller_cluster.ops", "poller_cluster.node", "poller_cluster.gone"]
