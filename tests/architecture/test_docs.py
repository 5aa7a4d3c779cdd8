"""Documents name what exists: paths, modules, tests, targets of make, commands, and the files that they link to."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOMS, ROOT, name_of, project_files, room_modules
from tests.architecture.test_readme import TARGETS, commands

FRAGMENT = re.compile(r"(\d+|\+[a-z0-9-]+)\.(breaking|feature|fix|speed)(\.\d+)?\.md")
HISTORY = {"CHANGELOG.md"}
"""What was may be gone."""
PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z]{3,}")
"""`cql/migrations/NNNN_TITLE.cql`: the folder must exist."""
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
SETTINGS = {("helm",), ("spark",)}
"""Where dotted names are those of settings."""
DOTTED = re.compile(rf"({'|'.join(ROOMS)})(\.\w+)+")


def documents() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md" and name_of(path) not in HISTORY]


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```", "", path.read_text())


def missing(text: str, *, beside: Path = ROOT) -> Iterator[str]:
    """What a text names in backticks and is not there: files, folders, modules, tests."""
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
    """Whether there is such a path, seen from the root or from the document; a module needs no ending."""
    place = ROOT / name
    if PLACEHOLDER.search(place.stem):
        return place.parent.is_dir()
    return any(ROOT.glob(name)) or place.with_suffix(".py").is_file() or (beside / name).exists()


def known(dotted: str) -> bool:
    """Whether it is a module, or a name that the module before it defines or hands on."""
    *parents, last = dotted.split(".")
    if module(dotted) is not None or not parents:
        return module(dotted) is not None
    source = module(".".join(parents))
    if source is None:
        return known(".".join(parents))  # a method, or a field
    tree = ast.parse(source.read_text())
    return any(last in names(node) for node in ast.walk(tree))


def module(dotted: str) -> Path | None:
    place = ROOT / dotted.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def names(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name for alias in aliases}
    return set()


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_what_it_names_exists(path: Path) -> None:
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
        "see `no/folder/`, `docs/NOWHERE/NAME.md`",
        "see `tests/unit/domain/test_quotas.py::test_of_nothing`",
    ],
)
def test_what_is_missing_is_found(text: str) -> None:
    assert list(missing(text))


def test_what_exists_is_not_missing() -> None:
    text = (
        "`cql/schema.cql` `cql/packed` `cql/` `cql.packed` `cql/migrations/NNNN_TITLE.cql` `minutehand.webhooks.verify`"
    )
    assert list(missing(text)) == []
