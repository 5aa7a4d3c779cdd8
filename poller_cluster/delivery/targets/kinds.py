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


def _kafka(settings: Mapping[str, Any]) -> TargetKind:
    from poller_cluster.delivery.targets.kafka.kind import KafkaKind

    return KafkaKind(settings)


BUILT_IN: Final[Mapping[str, KindFactory]] = {"kafka": _kafka}


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
    found = list(entry_points(group=GROUP) if installed is None else installed)
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


def _load(name: str, table: object, installed: list[EntryPoint]) -> TargetKind:
    """Raises ValueError."""
    if not isinstance(table, Mapping):
        raise ValueError("must be a table")
    found = [one for one in installed if one.name == name]
    if len(found) + (name in BUILT_IN) > 1:
        others = " and ".join(one.value for one in found)
        raise ValueError(f"is provided more than once: by {others}{' and Minutehand' if name in BUILT_IN else ''}")
    factory = BUILT_IN.get(name) or _imported(name, found, installed)
    try:
        return factory(table)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"failed to start: {type(error).__name__}: {error}") from error


def _imported(name: str, found: list[EntryPoint], installed: list[EntryPoint]) -> KindFactory:
    """Raises ValueError."""
    if not found:
        there = ", ".join(sorted({*BUILT_IN, *(one.name for one in installed)}))
        raise ValueError(f"is no kind of target that is installed here ({there}): install its package")
    try:
        factory: KindFactory = found[0].load()
    except Exception as error:
        raise ValueError(f"can't be loaded from {found[0].value}: {type(error).__name__}: {error}") from error
    return factory
