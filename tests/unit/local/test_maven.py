"""Messages about a repository give names and reasons, never addresses with passwords."""

import sys
from pathlib import Path

import pytest
import requests

from minutehand.local.errors import LocalExtraMissing
from minutehand.local.lock_file import Jar
from minutehand.local.maven import FetchFailed, MavenRepository


def test_the_name_hides_credentials() -> None:
    named = MavenRepository.from_environment({"MINUTEHAND_MAVEN_REPOSITORY": "https://user:word@jars.example/m2/"})
    assert named.name == "jars.example"


@pytest.mark.parametrize("environment", [{}, {"MINUTEHAND_MAVEN_REPOSITORY": ""}])
def test_without_a_name_jgo_chooses(environment: dict[str, str]) -> None:
    assert MavenRepository.from_environment(environment).name == "Maven Central"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (requests.exceptions.ConnectionError("NameResolutionError(...)"), "its name can't be resolved"),
        (requests.exceptions.SSLError("x"), "its certificate is not trusted"),
        (requests.exceptions.ConnectTimeout("x"), "it does not answer in time"),
        (requests.exceptions.ProxyError("x"), "the proxy refuses"),
        (requests.exceptions.ChunkedEncodingError("x"), "the connection broke"),
        (requests.exceptions.ConnectionError("refused"), "it can't be reached"),
        (RuntimeError("not found at https://user:word@jars.example"), "it lacks thing-1.jar"),
    ],
)
def test_reasons_are_words(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def fail(self: object, artifact: object) -> None:
        raise error

    monkeypatch.setattr("jgo.maven.PythonResolver.download", fail)
    jar = Jar("org.example", "thing", "1", "", 1, "00" * 32)
    with pytest.raises(FetchFailed) as caught:
        MavenRepository("https://user:word@jars.example").fetch(jar, tmp_path_factory.mktemp("m2"), lambda size: None)
    assert str(caught.value) == reason


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    with pytest.raises(LocalExtraMissing) as caught:
        MavenRepository().fetch(Jar("org.example", "thing", "1", "", 1, "00" * 32), tmp_path, lambda size: None)
    assert "'minutehand-server[local]'" in caught.value.remedy
