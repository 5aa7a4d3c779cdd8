"""Rules about size, names and content for every file of the repository."""

import re

from tests.architecture.sources import lines_matching, name_of, project_files, texts

LINES_AT_MOST = 600
"""A file is as long as its concept; a longer one holds several."""
GENERATED = (".lock", ".lock.toml")
HERE = ("tests/architecture/",)

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers"}
MACHINE_PATH = re.compile(r"(?<![\w.])(/root/|/home/\w|/Users/\w|/(work|farm|tmp)/\w|/opt/wheels|[A-Z]:\\Users)")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|repo1?\.maven|maven\.apache\.org|maven\.org|proxy\.golang|registry\.npmjs|"
    r"docker\.io/|ghcr\.io/|--(extra-)?index-url|--find-links"
)
PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
TOP_LEVEL = {
    "minutehand", "scheduler_service", "poller_cluster", "membership", "cql", "spark", "helm", "tests", "examples",
    "pyproject.toml", "README.md", "Makefile", "CHANGELOG.md", "LICENSE", ".ci", "requirements", "sdk", ".gitignore",
    "docs", "changes", "CONTRIBUTING.md", "SECURITY.md", ".editorconfig", ".pre-commit-config.yaml", ".github",
    ".devcontainer",
}  # fmt: skip


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    long = {
        name_of(path): count
        for path, text in texts()
        if not path.name.endswith(GENERATED)
        and path.suffix in {".py", ".cql", ".md", ""}
        and path.name != "LICENSE"
        and (count := len(text.splitlines())) > LINES_AT_MOST
    }
    assert long == {}


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert lines_matching(UNFINISHED, besides=HERE) == []


def test_modules_are_named_for_what_they_do() -> None:
    named = {name_of(path): set(path.stem.split("_")) | set(path.parent.name.split("_")) for path in project_files()}
    assert [name for name, words in named.items() if words & EMPTY_NAMES] == []


def test_no_path_of_one_machine() -> None:
    assert lines_matching(MACHINE_PATH, besides=HERE) == []


def test_no_address_of_a_registry() -> None:
    assert lines_matching(REGISTRY, besides=HERE) == []


def test_no_private_key() -> None:
    assert lines_matching(PRIVATE_KEY, besides=HERE) == []


def test_nothing_else_at_the_top() -> None:
    assert {name_of(path).split("/")[0] for path in project_files()} - TOP_LEVEL == set()
