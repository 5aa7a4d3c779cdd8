"""Finds the kinds of targets that the operator's settings switch on.

A kind is on where the settings have a table of its name. Kinds that come with Minutehand are listed here; others are
entry points of the group minutehand.targets, in any distribution that is installed beside it. Only kinds that are on
are imported. All faults are found at the start of a process, and named together.
"""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from membership.errors import SettingsInvalid
from poller_cluster.delivery.settings import TargetSettings
from poller_cluster.delivery.targets.port import KindFactory, TargetKind

GROUP: Final = "minutehand.targets"
BUILT_IN: Final[Mapping[str, str]] = {}
"""Module and object of each."""


def read_kinds(settings: TargetSettings) -> dict[str, TargetKind]:
    """The kinds of the operator's file, by name. Raises SettingsInvalid."""
    if settings.file is None:
        return {}
    try:
        tables = tomllib.loads(Path(settings.file).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsInvalid(f"targets.file: {settings.file} can't be read ({error.strerror})") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsInvalid(f"targets.file: {settings.file} is not valid TOML: {error}") from None
    return load_kinds(tables)


def load_kinds(settings: Mapping[str, Any], installed: Iterable[EntryPoint] | None = None) -> dict[str, TargetKind]:
    """The kinds, by name. `installed` None: the entry points of this environment. Raises SettingsInvalid with one
    sentence for each fault."""
    if not settings:
        return {}
    found = [*_built_in(), *(entry_points(group=GROUP) if installed is None else installed)]
    kinds: dict[str, TargetKind] = {}
    faults: list[str] = []
    for name, table in settings.items():
        try:
            kinds[name] = _load(name, table, found)
        except ValueError as error:
            faults.append(f"[{name}] {str(error).rstrip('.')}.")
    if faults:
        raise SettingsInvalid("targets: " + " ".join(faults))
    return kinds


def _built_in() -> list[EntryPoint]:
    return [EntryPoint(name=name, value=value, group=GROUP) for name, value in BUILT_IN.items()]


def _load(name: str, table: object, found: list[EntryPoint]) -> TargetKind:
    """Raises ValueError."""
    if not isinstance(table, Mapping):
        raise ValueError("must be a table")
    named = [one for one in found if one.name == name]
    if not named:
        there = ", ".join(sorted({one.name for one in found})) or "none"
        raise ValueError(f"is no kind of target that is installed here ({there}): install its package")
    if len(named) > 1:
        raise ValueError(f"is provided more than once: by {' and '.join(one.value for one in named)}")
    try:
        factory: KindFactory = named[0].load()
    except Exception as error:
        raise ValueError(f"can't be loaded from {named[0].value}: {type(error).__name__}: {error}") from error
    try:
        return factory(table)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{named[0].value} failed: {type(error).__name__}: {error}") from error
