"""Generates the synchronous half of the SDK, `_sync`, from the asynchronous one. Usage: python sdk/synchronous.py

Every module of `_async` is copied under its name with `async` and `await` removed. The modules in BY_HAND are written
by hand in both halves, since they work by other means; their names differ in the prefix only.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1] / "minutehand" / "client"
BY_HAND = {"__init__", "bulk", "connections"}
WORDS = {
    r"\basync (?=def |with |for )": "",
    r"\bawait ": "",
    r"\bAsync(?=[A-Z])": "",
    r"\b__a(?=enter__|exit__|iter__)": "__",
    r"\ba(?=read\(|close\()": "",
    r"\bhandle_async_request\b": "handle_request",
    r"\bsleep_async\b": "sleep",
    r"\bclient\._async\b": "client._sync",
    r"An asynchronous context manager; belongs to one event loop\.": "A context manager; may be shared by threads.",
}


def synchronous_files() -> Iterator[tuple[Path, str]]:
    """The generated modules, with their content."""
    for path in sorted((CLIENT / "_async").glob("*.py")):
        if path.stem not in BY_HAND:
            text = f"# Made of ../_async/{path.name} by `make sdk`: edit that.\n{synchronous(path.read_text())}"
            yield CLIENT / "_sync" / path.name, tidied(text)


def synchronous(source: str) -> str:
    """Raises ValueError where something asynchronous remains."""
    text = without_brackets(source)
    for pattern, instead in WORDS.items():
        text = re.sub(pattern, instead, text)
    if left := re.search(r".*(async|await).*", text, re.IGNORECASE):
        raise ValueError(f"there is no synchronous form of {left[0].strip()!r}")
    return text


def without_brackets(source: str) -> str:
    """Rewrite `(await this).items` as `await this.items`, which is right once `await` is removed."""
    nodes = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    awaited = [node for node in nodes if isinstance(node, ast.Await)]
    brackets = [(node.lineno, node.col_offset - 1) for node in awaited]
    brackets += [(node.end_lineno or 0, node.end_col_offset or 0) for node in awaited]
    lines = source.splitlines(keepends=True)
    for number, column in sorted(brackets, reverse=True):
        line = lines[number - 1]
        if line[column] not in "()":
            raise ValueError(f"there is no bracket at column {column} of {line.strip()!r}")
        lines[number - 1] = line[:column] + line[column + 1 :]
    return "".join(lines)


def tidied(text: str) -> str:
    """Shorter names need other line breaks and another order of imports."""
    for command in (("check", "--quiet", "--fix", "--unsafe-fixes", "--select=I,UP028"), ("format", "--quiet")):
        ruff = (sys.executable, "-m", "ruff", *command, "--stdin-filename", CLIENT / "_sync" / "any.py", "-")
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for path, text in synchronous_files():
        path.write_text(text)
