"""Documents and docstrings name only what exists: paths, modules, classes, tests, targets of make, commands, and linked
files.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.sources import ROOMS, ROOT, name_of, project_files, room_modules
from tests.architecture.test_readme import TARGETS, commands

FRAGMENT = re.compile(r"(\d+|\+[a-z0-9-]+)\.(breaking|feature|fix|speed)(\.\d+)?\.md")
HISTORY = {"CHANGELOG.md"}
"""These documents may name what no longer exists."""
PLACEHOLDERS = {"NAME", "NNNN", "NOUN", "TITLE"}
"""In a path such as `cql/migrations/NNNN_TITLE.cql` only the folder must exist."""
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
SETTINGS = {("helm",), ("spark",)}
"""Where dotted names are those of settings."""
TOPS = (*ROOMS, "tests")
DOTTED = re.compile(rf"({'|'.join(TOPS)})(\.\w+)+")
SHORT = ("domain", "runtime", "usecases")
"""Packages of `scheduler_service` that every room's docstrings name without it."""
VALUES = {
    "clients.timeout_seconds", "delivery.max_in_flight", "lease.under_way", "membership.trust_seconds",
    "schedules.read_row", "services.crons.show", "services.keys",
    "settings.host", "settings.port", "spark.minutehand.cassandra.NAME",
}  # fmt: skip
"""Settings, statements and fields that docstrings name, and that begin like a module."""
FILE = re.compile(r".*\.(json|py|toml|xml|yaml)")


def documents() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md" and name_of(path) not in HISTORY]


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```", "", path.read_text())


def missing(text: str, *, beside: Path = ROOT) -> Iterator[str]:
    """Files, folders, modules and tests that a text names in backticks and that do not exist."""
    of_settings = beside.relative_to(ROOT).parts[:1] in SETTINGS
    tops = {path.relative_to(ROOT).parts[0] for path in project_files()}
    for found in CODE.findall(text):
        name, _, test = found.removesuffix("/").partition("::")
        if re.fullmatch(r"[\w.+*/-]+", name) and "/" in name and name.split("/")[0] in tops:
            if not exists(name, beside) or (test and f"def {test}(" not in (ROOT / name).read_text()):
                yield found
        elif not of_settings and DOTTED.fullmatch(name) and not known(name):
            yield found


def exists(name: str, beside: Path) -> bool:
    """Whether the path exists, relative to the root or to the document; a module needs no ending."""
    place = ROOT / name
    if PLACEHOLDERS.intersection(re.split(r"[_.]", place.stem)):
        return place.parent.is_dir()
    return any(ROOT.glob(name)) or place.with_suffix(".py").is_file() or (beside / name).exists()


def known(dotted: str) -> bool:
    """Whether it is a module, or a name that a module or a class of it defines or re-exports."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        if (source := module(".".join(parts[:end]))) is not None:
            return end == len(parts) or defines(parsed(source), parts[end:], parsed(source))
    return False


def module(dotted: str) -> Path | None:
    place = ROOT / dotted.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def defines(scope: ast.Module | ast.ClassDef, path: Sequence[str], tree: ast.Module) -> bool:
    """Whether a module, a class of `tree` or a base of it defines the first name, and that one the rest of the path."""
    first, *rest = path
    for node in within(scope):
        match node:
            case ast.ClassDef(name=name) if name == first:
                return not rest or defines(node, rest, tree)
            case ast.ImportFrom(module=str(source), names=aliases):
                for alias in aliases:
                    if first == (alias.asname or alias.name):
                        return known(".".join((source, alias.name, *rest))) or source.split(".")[0] not in TOPS
            case _ if first in names(node):
                return not rest
    if isinstance(scope, ast.ClassDef):
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in scope.bases]
        return any(isinstance(base, ast.Name) and defines(tree, (base.id, *path), tree) for base in bases)
    return False


def within(scope: ast.AST) -> Iterator[ast.AST]:
    """Names that a module or class defines, conditional ones too; for a class also those that its methods assign to
    `self`.
    """
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from within(node)
        elif isinstance(scope, ast.ClassDef):
            yield from (one for one in ast.walk(node) if isinstance(one, ast.Assign | ast.AnnAssign))


def names(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {name for target in targets if (name := assigned(target))}
        case ast.AnnAssign(target=target):
            return {assigned(target)}
    return set()


def assigned(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Docstrings of the module, its definitions, and its fields and constants."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def missing_names(text: str, path: str) -> Iterator[str]:
    """Dotted names in docstrings of this file that begin like a room, or like a module or package beside the file or
    above it, and do not exist.
    """
    for found in CODE.findall(text):
        if re.fullmatch(r"\w+(\.\w+)+", found) and not FILE.fullmatch(found):
            first = found.partition(".")[0]
            above = (folder.as_posix() for folder in Path(path).parents[:-1])
            wanted = [f"{folder}/{found}".replace("/", ".") for folder in above if module(f"{folder}/{first}")]
            wanted += [found] if first in TOPS else []
            wanted += [f"scheduler_service.{found}"] if first in SHORT else []
            if wanted and not any(known(name) for name in wanted):
                yield found


def test_what_docstrings_name_exists() -> None:
    missed = [
        (path, found)
        for path, tree in room_modules().items()
        for text in docstrings(tree)
        for found in missing_names(text, path)
    ]
    assert [f"{path}: {found}" for path, found in missed if found not in VALUES] == []
    assert {found for _, found in missed} == VALUES, "an exception that is not needed any more"


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_names_in_documents_exist(path: Path) -> None:
    assert list(missing(prose(path), beside=path.parent)) == []


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_what_it_links_to_exists(path: Path) -> None:
    assert [target for target in LINK.findall(prose(path)) if not (path.parent / target).exists()] == []


def test_targets_and_commands_that_documents_name_exist() -> None:
    known_commands = commands()
    groups = {command.split()[0] for command in known_commands}
    text = "\n".join(path.read_text() for path in documents())
    targets = set(re.findall(r"(?:`|^ *(?:\$ )?)make ([a-z-]+)", text, re.MULTILINE))
    named = set(re.findall(r"(?:`|^)minutehand ([a-z][a-z-]*(?: [a-z][a-z-]+)?)", text, re.MULTILINE))
    assert targets - TARGETS == set()
    assert {words for words in named if words not in known_commands and words.split()[0] not in groups} == set()


def test_words_of_the_glossary_are_in_order_and_have_one_line_each() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    words = [word for word, *_ in rows]
    assert words == sorted(set(words), key=str.lower)
    assert [row for row in rows if len(row) != 2 or not row[1].endswith(".")] == []


def test_every_spark_job_is_in_the_table_of_jobs() -> None:
    calls = (
        node
        for name, tree in room_modules().items()
        if name.startswith("spark/jobs/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Job"
    )
    jobs = {ast.literal_eval(word.value) for call in calls for word in call.keywords if word.arg == "name"}
    table = (ROOT / "spark" / "README.md").read_text().partition("| job |")[2].partition("\n\n")[0]
    assert jobs == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_change_fragments_have_a_kind() -> None:
    found = [path.name for path in project_files() if name_of(path).startswith("changes/")]
    assert [name for name in found if name != "README.md" and FRAGMENT.fullmatch(name) is None] == []


@pytest.mark.parametrize(
    "text",
    [
        "see `cql/no_such_file.py`",
        "see `cql/no_such_file`",
        "see `cql.no_such_module`",
        "see `minutehand.webhooks.falsify`",
        "see `cql.session.Session.no_such_method`",
        "see `no/folder/`, `docs/NOWHERE/NAME.md`",
        "see `helm/NOPE.md`",
        "see `cql/README.md`",
        "see `tests/unit/domain/test_quotas.py::test_of_nothing`",
    ],
)
def test_missing_names_are_reported(text: str) -> None:
    assert list(missing(text))


def test_existing_names_are_not_reported() -> None:
    text = (
        "`cql/schema.cql` `cql/packed` `cql/` `cql.packed` `cql/migrations/NNNN_TITLE.cql` `minutehand.webhooks.verify`"
        " `cql.session.Session.close` `scheduler_service.domain.clients.Client.settings`"
    )
    assert list(missing(text)) == []


def test_what_a_docstring_names_is_looked_up_from_its_file() -> None:
    text = "`domain.ports.NoSuchStore` `minute.no_such_module` `minute.machine` `dispatch.outcome.defer` `row.epoch`"
    assert list(missing_names(text, "poller_cluster/dispatch/job.py")) == [
        "domain.ports.NoSuchStore",
        "minute.no_such_module",
    ]
