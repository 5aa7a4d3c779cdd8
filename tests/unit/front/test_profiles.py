"""Profiles: kept for their user alone, taken as a whole, and never in the way of what calls no API."""

import io
import json
import stat
from pathlib import Path

import pytest

from minutehand.cli import failures, login
from minutehand.client import Minutehand
from minutehand.profiles import profiles_file, read_profiles
from tests.support.command_tree import command_tree


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("MINUTEHAND_URL", "MINUTEHAND_KEY", "MINUTEHAND_CA_FILE", "MINUTEHAND_PROFILE"):
        # Set first, so that what a command sets is removed after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def connect(url: str, key: str) -> Minutehand:
        found.append((url, key))
        raise ValueError("seen")

    monkeypatch.setattr("minutehand.client.Minutehand", connect)
    return found


def log_in(monkeypatch: pytest.MonkeyPatch, *arguments: str, key: str = "the-key\n") -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(key))
    return failures.run(["login", *arguments])


def test_a_key_from_standard_input_is_kept_for_its_user_alone(
    monkeypatch: pytest.MonkeyPatch, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_in(monkeypatch, "shop", "--url", "https://mh.example") == 0
    file = home / "minutehand" / "profiles.json"
    assert profiles_file() == file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text()) == {"shop": {"url": "https://mh.example", "key": "the-key", "ca_file": None}}
    assert failures.run(["profiles"]) == failures.run(["profiles", "--json"]) == 0
    assert "https://mh.example" in (said := capsys.readouterr().out)
    assert "the-key" not in said + repr(read_profiles())
    assert failures.run(["logout", "shop"]) == 0
    assert failures.run(["logout", "shop"]) == 1
    assert read_profiles() == {}


@pytest.mark.parametrize("arguments", [("--profile", "shop"), ()])
def test_a_profile_is_taken_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, connected: list[tuple[str, str]], arguments: tuple[str, ...]
) -> None:
    log_in(monkeypatch, "shop", "--url", "https://mh.example")
    monkeypatch.setenv("MINUTEHAND_URL", "https://elsewhere.example")
    if not arguments:
        monkeypatch.setenv("MINUTEHAND_PROFILE", "shop")
    failures.run([*arguments, "clients", "list"])
    assert connected == [("https://mh.example", "the-key")]


def test_the_default_gives_way_to_the_environment(
    monkeypatch: pytest.MonkeyPatch, connected: list[tuple[str, str]]
) -> None:
    log_in(monkeypatch)
    monkeypatch.setenv("MINUTEHAND_KEY", "another")
    failures.run(["clients", "list"])
    monkeypatch.delenv("MINUTEHAND_KEY")
    failures.run(["clients", "list"])
    failures.run(["clients", "list", "--key", "given"])
    assert [key for _, key in connected] == ["another", "the-key", "given"]


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("{}", 0o644, "Others than you may read the keys"),
        ("{", 0o600, "holds no profiles"),
        ('{"a": 1}', 0o600, "holds no profiles"),
        ("{}", 0o600, "There is no profile shop"),
    ],
)
def test_what_can_not_be_used_is_said_and_keeps_no_program_from_its_start(
    home: Path, capsys: pytest.CaptureFixture[str], content: str, mode: int, said: str
) -> None:
    file = home / "minutehand" / "profiles.json"
    file.parent.mkdir()
    file.write_text(content)
    file.chmod(mode)
    assert failures.run(["--profile", "shop", "clients", "list"]) == 1
    assert said in capsys.readouterr().err
    assert failures.run(["--profile", "shop", "config"]) == 0


@pytest.mark.parametrize("key", ["", "\n", "two words\n", "schlüssel\n", "a\x1bb\n"])
def test_what_is_no_key_is_not_kept(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    assert log_in(monkeypatch, key=key) == 1
    assert not profiles_file().exists()


def test_commands_without_a_profile_are_commands() -> None:
    assert command_tree().commands.keys() >= login.WITHOUT_PROFILE
