"""The programs of the guide to signatures, built as a reader builds them, with libraries of pinned content.

    docs/how-to/verify-a-signature.md --the block of a language--> a program --started as--> COMMAND PORT

Libraries come from the locks in tests/integration/verifying: npm and Go check theirs, and a jar has its sha256.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from minutehand.errors import LocalError
from minutehand.local.jars import JarStore, cache_directory
from minutehand.local.lock_file import read_lock
from minutehand.local.maven import MavenRepository
from tests.support.generators import GeneratorsUnavailable, ensure_node
from tests.support.pages import ROOT, blocks

PAGE: Final = "docs/how-to/verify-a-signature.md"
LOCKS: Final = ROOT / "tests" / "integration" / "verifying"
LEAST_GO: Final = (1, 22)
LEAST_JDK: Final = 11


def built_javascript(directory: Path) -> list[str]:
    (directory / "node_modules").symlink_to(ensure_node(LOCKS) / "node_modules")
    return ["node", str(_written("javascript", directory / "receiver.mjs"))]


def built_go(directory: Path) -> list[str]:
    _check("go", ["version"], r"go(\d+)\.(\d+)", LEAST_GO)
    _written("go", directory / "main.go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(LOCKS / name, directory)
    fetched = subprocess.run(["go", "mod", "download"], cwd=directory, capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        raise GeneratorsUnavailable(f"go could not fetch its library: {fetched.stderr}")
    _compile(["go", "build", "-mod=readonly", "-o", "receiver", "."], directory)
    return [str(directory / "receiver")]


def built_java(directory: Path) -> list[str]:
    _check("javac", ["-version"], r"javac (\d+)", (LEAST_JDK,))
    source = _written("java", directory / "Receiver.java")
    jars = JarStore(cache_directory(), MavenRepository.from_environment())
    try:
        (library,) = jars.ensure(read_lock("standardwebhooks", LOCKS / "jars.lock.toml"))
    except LocalError as error:
        raise GeneratorsUnavailable(str(error)) from None
    _compile(["javac", "-Xlint:all", "-Werror", "-cp", str(library), source.name], directory)
    return ["java", "-cp", f"{library}:{directory}", "Receiver"]


BUILT: Final[Mapping[str, Callable[[Path], list[str]]]] = {
    "javascript": built_javascript,
    "go": built_go,
    "java": built_java,
}
"""By language, what builds its program in an empty directory and returns the command that starts it, lacking a port.
Raises GeneratorsUnavailable where the language or its library can't be had, and CalledProcessError where it does not
compile."""


def _written(language: str, path: Path) -> Path:
    (program,) = blocks(PAGE, language)
    path.write_text(program, encoding="utf-8")
    return path


def _check(program: str, arguments: list[str], pattern: str, least: tuple[int, ...]) -> None:
    if shutil.which(program) is None:
        raise GeneratorsUnavailable(f"no {program} is on the PATH")
    said = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    found = re.search(pattern, said.stdout + said.stderr)
    if found is None or tuple(map(int, found.groups())) < least:
        raise GeneratorsUnavailable(f"{program} must be {'.'.join(map(str, least))} or newer")


def _compile(command: list[str], directory: Path) -> None:
    subprocess.run(command, cwd=directory, check=True)
