"""The kinds of targets that settings switch on."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from membership.errors import SettingsInvalid
from poller_cluster.delivery.settings import TargetSettings
from poller_cluster.delivery.targets.kinds import GROUP, load_kinds, read_kinds


class Made:
    def __init__(self, settings: Any) -> None:
        if "wrong" in settings:
            raise ValueError("wrong is not known")
        if settings.get("bug"):
            raise KeyError("bug")
        self.settings = settings


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    module = ModuleType("minutehand_box")
    module.Box = Made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "minutehand_box", module)
    return [
        EntryPoint("box", "minutehand_box:Box", GROUP),
        EntryPoint("gone", "minutehand_gone:Gone", GROUP),
        EntryPoint("twice", "minutehand_box:Box", GROUP),
        EntryPoint("twice", "minutehand_other:Box", GROUP),
        EntryPoint("kafka", "minutehand_box:Box", GROUP),
    ]


def test_only_those_with_a_table_are_on(installed: list[EntryPoint]) -> None:
    kinds = load_kinds({"box": {"size": 3}}, installed)
    assert list(kinds) == ["box"]
    assert kinds["box"].settings == {"size": 3}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bus": {}}, r"\[bus\] is no kind of target that is installed here \(.*box, gone"),
        ({"gone": {}}, r"\[gone\] can't be loaded from minutehand_gone:Gone: ModuleNotFoundError"),
        ({"twice": {}}, r"\[twice\] is provided more than once: by minutehand_box:Box and minutehand_other:Box"),
        ({"box": 3}, r"\[box\] must be a table"),
        ({"box": {"wrong": 1}}, r"\[box\] wrong is not known"),
        ({"box": {"bug": 1}}, r"\[box\] failed to start: KeyError"),
        ({"kafka": {}}, r"\[kafka\] is provided more than once: by minutehand_box:Box and Minutehand"),
        ({"bus": {}, "box": {"wrong": 1}}, r"\[bus\] .*\[box\] wrong"),
    ],
)
def test_a_fault_is_a_sentence(installed: list[EntryPoint], settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said):
        load_kinds(settings, installed)


def test_without_a_file_no_kind_is_on() -> None:
    assert read_kinds(TargetSettings()) == {}


def test_a_file_that_can_not_be_read_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="no-such"):
        read_kinds(TargetSettings(file=str(tmp_path / "no-such.toml")))
    file = tmp_path / "targets.toml"
    file.write_text("[box", encoding="utf-8")
    with pytest.raises(SettingsInvalid, match="not valid TOML"):
        read_kinds(TargetSettings(file=str(file)))
