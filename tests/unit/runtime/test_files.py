"""Values made of files: reloaded when the files change, kept when the new content is invalid."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler_service.runtime.files import FilesUnusable, FromFiles, read_text


def follow(file: Path) -> FromFiles[str]:
    return FromFiles([str(file)], lambda: read_text(str(file), setting="a.setting"), what="a secret")


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    file, loads = tmp_path / "one", list[str]()
    file.write_text("first\n")

    def load() -> str:
        loads.append(file.read_text())
        return loads[-1].strip()

    value = FromFiles([str(file)], load, what="a secret")
    assert [value.current() for _ in range(3)] == ["first"] * 3
    assert (len(loads), value.generation) == (1, 0)
    file.write_text("second\n")
    with capture_logs() as said:
        assert [value.current() for _ in range(3)] == ["second"] * 3
    assert [(line["event"], line["what"], line["files"]) for line in said] == [
        ("files-read-again", "a secret", [str(file)])
    ]
    assert (len(loads), value.generation) == (2, 1)


def test_invalid_files_are_logged_once_and_the_value_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "one"
    file.write_text("good")
    value = follow(file)
    with capture_logs() as said:
        file.write_text("  \n")
        assert [value.current() for _ in range(3)] == ["good"] * 3
        file.unlink()
        assert [value.current() for _ in range(3)] == ["good"] * 3
    assert {line["event"] for line in said} == {"files-refused"}
    assert [line["reason"] for line in said] == [
        f"a.setting names {file}, which is empty",
        f"a.setting names {file}, which can't be read (no such file or directory)",
    ]
    file.write_text("better")
    assert value.current() == "better"
    assert value.generation == 1


def test_a_link_turned_to_other_files_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes replaces a mounted secret: `key -> ..data/key`, `..data -> ..2026_11_22`."""
    for version in ("..one", "..two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "key").write_text(version)
        os.utime(tmp_path / version / "key", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "key").symlink_to("..data/key")
    value = follow(tmp_path / "key")
    assert value.current() == "..one"
    (tmp_path / "..data_tmp").symlink_to("..two")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert value.current() == "..two", "same path, same size, same time: another file"


def test_what_is_unusable_from_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FilesUnusable, match=r"a\.setting names .*nowhere, which can't be read"):
        follow(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(FilesUnusable, match="which is no text"):
        follow(tmp_path / "binary")
