"""Releases of the IANA time zone database as they are distributed, read without being installed.

A release is `installed` (the package that this program computes by), a wheel of the package `tzdata`, its directory, or
any directory of compiled zones such as `/usr/share/zoneinfo`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TypeVar
from zipfile import BadZipFile, ZipFile

from scheduler_service.domain.crons.zones import tzdata_version, zone_names
from spark.errors import JobRefused

T = TypeVar("T")

INSTALLED = "installed"
UNKNOWN = "unknown"
"""The version of a directory that does not name it."""

_MAGIC = b"TZif"
_NOT_ZONES = frozenset({"Factory", "localtime", "posixrules"})
_OTHER_FORMS = frozenset({"posix", "right"})
"""Directories in which systems keep the same zones again, with and without leap seconds."""
_RELEASE = r"([0-9]{4}[a-z]{1,2})\b"
_VERSION_FILES = {
    "../__init__.py": re.compile(rf"^IANA_VERSION = [\"']{_RELEASE}", re.MULTILINE),
    "tzdata.zi": re.compile(rf"^# version {_RELEASE}"),
    "+VERSION": re.compile(rf"^{_RELEASE}"),
}
"""Where a release says which one it is; the first is the package's."""


@dataclass(frozen=True, slots=True)
class ZoneRelease:
    """`version`: such as `2026f`. `zones`: the file of each zone, by its name."""

    version: str
    zones: Mapping[str, bytes]


def read_release(where: str) -> ZoneRelease:
    """Raises JobRefused where there are no zones."""
    if where == INSTALLED:
        root = files("tzdata").joinpath("zoneinfo")
        return ZoneRelease(
            tzdata_version(), {name: root.joinpath(*name.split("/")).read_bytes() for name in zone_names()}
        )
    path = Path(where)
    try:
        if path.is_file():
            return _of_wheel(path)
        return _of_directory(path)
    except (OSError, BadZipFile) as error:
        raise JobRefused(f"{where} can't be read as zones: {error}") from error


def _of_wheel(path: Path) -> ZoneRelease:
    with ZipFile(path) as wheel:
        prefix = PurePosixPath("tzdata/zoneinfo")
        inside = {name for name in wheel.namelist() if name.startswith(f"{prefix}/") and not name.endswith("/")}
        zones = _zones({name.removeprefix(f"{prefix}/"): name for name in inside}.items(), wheel.read)
        known = {name for name in wheel.namelist() if not name.endswith("/")}

        def text(name: str) -> str | None:
            full = f"tzdata/{name.removeprefix('../')}" if name.startswith("../") else f"{prefix}/{name}"
            return wheel.read(full).decode(errors="replace") if full in known else None

        return _release(str(path), zones, text)


def _of_directory(path: Path) -> ZoneRelease:
    roots = [path / "tzdata" / "zoneinfo", path / "zoneinfo", path]
    root = next((one for one in roots if one.is_dir()), None)
    if root is None:
        raise JobRefused(f"{path} is neither `installed` nor a directory or wheel of zones")
    names = [(one.relative_to(root).as_posix(), one) for one in root.rglob("*") if one.is_file()]

    def text(name: str) -> str | None:
        file = root / name
        return file.read_text(errors="replace") if file.is_file() else None

    return _release(str(path), _zones(names, Path.read_bytes), text)


def _zones(named: Iterable[tuple[str, T]], read: Callable[[T], bytes]) -> dict[str, bytes]:
    found = {}
    for name, file in named:
        if name in _NOT_ZONES or name.split("/")[0] in _OTHER_FORMS or name.endswith((".py", ".pyc")):
            continue
        data = read(file)
        if data.startswith(_MAGIC):
            found[name] = data
    return found


def _release(where: str, zones: Mapping[str, bytes], text: Callable[[str], str | None]) -> ZoneRelease:
    if not zones:
        raise JobRefused(f"{where} holds no compiled zone: give a directory or wheel of tzdata, or `installed`")
    for name, version in _VERSION_FILES.items():
        found = version.search(text(name) or "")
        if found is not None:
            return ZoneRelease(found[1], zones)
    return ZoneRelease(UNKNOWN, zones)
