"""The image recipe as text: the user, what is installed, what is copied. It builds nothing and needs no Docker."""

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence, Set
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.sources import ROOMS, ROOT, project_files

RECIPE = ROOT / "helm" / "image" / "Dockerfile"
LATER = {"spark", "requirements/spark.lock"}
"""Files that only the jobs' image needs; a project without the jobs lacks them."""


class Step(NamedTuple):
    """`stage`: the name of the step's stage; empty before the first."""

    stage: str
    word: str
    rest: str


def steps(text: str) -> list[Step]:
    """Instructions in order, continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found, stage = [], ""
    for line in re.sub(r"\\\n\s*", " ", lines).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            if word == "FROM":
                stage = rest.split()[-1]
            found.append(Step(stage, word, rest))
    return found


def lineage(all_steps: Sequence[Step], stage: str) -> list[Step]:
    """The steps of a stage, after those of the stages on which it is based."""
    own = [one for one in all_steps if one.stage == stage]
    base = own[0].rest.split()[0]
    return [*(lineage(all_steps, base) if any(one.stage == base for one in all_steps) else []), *own]


def copied(all_steps: Sequence[Step]) -> list[tuple[list[str], str]]:
    """Sources and receiver of files copied from the project."""
    copies = [shlex.split(one.rest) for one in all_steps if one.word == "COPY" and "--from=" not in one.rest]
    return [(words[:-1], words[-1]) for words in copies]


STEPS = steps(RECIPE.read_text())
IMAGES = ("minutehand", "spark")


@pytest.mark.parametrize("image", IMAGES)
def test_no_stage_runs_as_root(image: str) -> None:
    users = [one.rest for one in lineage(STEPS, image) if one.word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]), "a number: Kubernetes can't tell whether a name is root"


@pytest.mark.parametrize("image", IMAGES)
def test_the_root_may_be_read_only(image: str) -> None:
    variables = " ".join(one.rest for one in lineage(STEPS, image) if one.word == "ENV")
    assert {"PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp", "TMPDIR=/tmp"} <= set(variables.split())
    assert [one.rest for one in lineage(STEPS, image) if one.word == "WORKDIR"][-1] == "/tmp"


def test_the_user_is_the_charts() -> None:
    chart = (ROOT / "helm" / "minutehand" / "values.yaml").read_text()
    (uid,) = re.findall(r"runAsUser: (\d+)", chart)
    assert {one.rest for one in STEPS if one.word == "USER"} == {f"{uid}:{uid}"}


def test_images_are_made_from_one_that_can_be_chosen_and_is_pinned() -> None:
    (argument,) = [one.rest for one in STEPS if one.word == "ARG"]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.11-slim@sha256:[0-9a-f]{64}", argument)
    named = {one.stage for one in STEPS}
    assert {one.rest.split()[0] for one in STEPS if one.word == "FROM"} - named == {"${PYTHON_IMAGE}"}


def test_nothing_is_fetched_but_what_the_locks_name() -> None:
    assert [one for one in STEPS if one.word == "ADD"] == []
    assert not re.search(r"https?://|\bcurl\b|\bwget\b|apt(-get)? ", " ".join(one.rest for one in STEPS))
    installs = [part for one in STEPS if one.word == "RUN" for part in one.rest.split("&&") if "pip install" in part]
    assert len(installs) == 4
    for install in installs:
        if install.rstrip().endswith(" ."):
            assert "--no-deps" in install
            assert "--no-build-isolation" in install
        else:
            assert "--require-hashes" in install
            assert re.search(r"--requirement requirements/(image|spark)\.lock", install)


def test_all_that_is_copied_exists() -> None:
    named = {source for sources, _ in copied(STEPS) for source in sources}
    missing = {source for source in named if not (ROOT / source).exists()}
    assert missing <= (set() if (ROOT / "spark").is_dir() else LATER)


def test_every_room_is_copied() -> None:
    sources = {source for sources, _ in copied(lineage(STEPS, "build-spark")) for source in sources}
    assert {room for room in ROOMS if (ROOT / room).is_dir()} <= sources


def test_what_is_copied_may_come_in() -> None:
    """The ignore file excludes everything that it does not name again, file by file or folder by folder."""
    rules = (RECIPE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in rules if line.startswith("!")}
    assert "*" in rules
    assert {source.split("/")[0] for sources, _ in copied(STEPS) for source in sources} == kept


def test_what_is_copied_is_enough_to_build_the_project(tmp_path: Path) -> None:
    """Built as in the recipe, without an index: the build's requirements are installed already."""
    tracked = {path.relative_to(ROOT).as_posix() for path in project_files()}
    source = tmp_path / "source"
    for names, receiver in copied(lineage(STEPS, "build")):
        for name in names:
            inside = f"{receiver}{Path(name).name}" if receiver.endswith("/") else name
            copy(tracked, name, source / inside)
    (install,) = [one.rest for one in lineage(STEPS, "build") if "--no-deps" in one.rest]
    projects = [word for word in shlex.split(install.partition("&&")[0]) if word.startswith(".")]
    command = [
        *(sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"),
        *("--quiet", "--disable-pip-version-check", "--wheel-dir", str(tmp_path), *projects),
    ]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    packed: set[str] = set()
    for wheel in tmp_path.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            packed |= set(archive.namelist())
    wanted = {name for name in tracked if name.split("/")[0] in set(ROOMS) - {"spark"}}
    assert wanted - packed == set()


def copy(tracked: Set[str], name: str, to: Path) -> None:
    """Copy a file; or a folder's tracked files, and the links in it."""
    if (ROOT / name).is_dir():
        links = {path.relative_to(ROOT).as_posix() for path in (ROOT / name).iterdir() if path.is_symlink()}
        inside = {one for one in tracked if one.startswith(f"{name}/")} | links
    else:
        inside = {name}
    for one in inside:
        target = to / Path(one).relative_to(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / one, target, follow_symlinks=False)
