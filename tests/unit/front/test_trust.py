"""Which servers the commands accept as the API, and the command that makes a key."""

import base64
import json
import os
from pathlib import Path

import httpx
import pytest

from minutehand.cli import failures, options
from minutehand.client import MinutehandUnreachable
from scheduler_service.usecases.key_ring import KEY_BYTES, KeyRing
from tests.support.certificates import Authority


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(options.CA_FILE_VARIABLE, "")


def test_authorities_come_from_the_option_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    monkeypatch.setattr("minutehand.client.Minutehand", lambda url, key, **more: given.append(more.get("ssl_context")))
    options.connect("https://api", "k")
    options.trust(str(Authority(tmp_path).bundle))
    options.connect("https://api", "k")
    assert given[0] is None
    assert given[1] is not None
    assert os.environ[options.CA_FILE_VARIABLE].startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("holds", "words"), [(None, "no such file or directory"), ("x", "holds no certificates in PEM")]
)
def test_a_file_that_is_none_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], holds: str | None, words: str
) -> None:
    file = tmp_path / "ca.pem"
    if holds is not None:
        file.write_text(holds)
    assert failures.run(["--ca-file", str(file), "clients", "list", "--key", "k"]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "--ca-file" in said


def test_a_certificate_that_is_not_believed_leads_to_the_option() -> None:
    refused = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed")
    error = MinutehandUnreachable(f"Minutehand does not answer at https://api ({refused})", passing=False)
    assert failures.sentence_for(error).endswith("with --ca-file or MINUTEHAND_CA_FILE.")


def test_a_new_key_is_a_line_of_a_ring(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["secrets", "new-key", "--id", "mine"]) == 0
    line = capsys.readouterr().out
    assert KeyRing.parse(line).primary == "mine"
    assert failures.run(["secrets", "new-key", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert len(base64.b64decode(made["key"])) == KEY_BYTES
    assert made["key"] not in line


def test_an_id_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["secrets", "new-key", "--id", "two words"]) == 1
    assert "is no key id" in capsys.readouterr().err
