"""The project's own files, and what their syntax shows."""

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("minutehand", "scheduler_service", "poller_cluster", "membership", "cql", "spark")


@functools.cache
def project_files() -> tuple[Path, ...]:
    """Every file that is in the repository or would be added to it; without git, every file that .gitignore leaves."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0")
        found = [ROOT / name for name in names if name]
    except (OSError, subprocess.CalledProcessError):
        ignored = {line.strip("*/ ") for line in (ROOT / ".gitignore").read_text().splitlines()} | {".git"}
        found = [path for path in ROOT.rglob("*") if not ignored.intersection(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in found if path.is_file()))


def texts() -> Iterator[tuple[Path, str]]:
    """Project files that are text, with their content."""
    for path in project_files():
        content = path.read_bytes()
        if b"\0" not in content:
            yield path, content.decode()


def name_of(path: Path) -> str:
    """The path as a reader of the repository writes it."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def room_modules() -> dict[str, ast.Module]:
    """The parsed modules of the rooms (no tests), by path."""
    return {
        name_of(path): ast.parse(path.read_text(), name_of(path))
        for path in project_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ROOMS
    }


@functools.cache
def parsed_tests() -> dict[str, ast.Module]:
    """The parsed modules of all suites, by path."""
    return {
        name_of(path): ast.parse(path.read_text(), name_of(path))
        for path in project_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] == "tests"
    }


def imported_modules(tree: ast.Module) -> set[str]:
    """Dotted names of all absolute imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def dotted(node: ast.expr) -> str:
    """`a.b.c` for such an expression; a call within it reads as `a.b().c`; any other expression gives an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
        case ast.Call(func=func):
            return f"{dotted(func)}()"
        case _:
            return ""


def lines_matching(pattern: re.Pattern[str], *, besides: tuple[str, ...] = ()) -> list[str]:
    """`path:line: text` of every matching line of a project file, except in files whose path begins with one of
    these.
    """
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path, text in texts()
        if not name_of(path).startswith(besides) and pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
