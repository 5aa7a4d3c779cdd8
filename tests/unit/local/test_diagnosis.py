"""The sentence made of a failed server's last log lines."""

import re
from pathlib import Path

import pytest

from minutehand.errors import LocalError
from minutehand.local.diagnosis import explain_exit, last_complaint
from minutehand.local.errors import DiskFull, PortBusy, StartFailed, TooLittleMemory, WrongJava
from minutehand.local.settings import ServerSettings


def explain(directory: Path, *, console: str = "", log: str = "", code: int = 1) -> LocalError:
    (directory / "logs").mkdir()
    (directory / "logs/console.log").write_text(console)
    if log:
        (directory / "logs/system.log").write_text(log)
    settings = ServerSettings(
        data_dir=directory,
        host="127.0.0.1",
        native_port=9042,
        storage_port=7000,
        seeds=("127.0.0.1",),
        cluster_name="minutehand",
        heap_mb=1024,
        num_tokens=16,
    )
    return explain_exit(settings, code, native_setting="--native-port", storage_setting="--storage-port")


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        ("ERROR [main] x - Failed to bind port 9042 on 127.0.0.1.", PortBusy, "Port 9042 .* --native-port"),
        (
            "ERROR [main] x - Exception encountered during startup\norg.apache.cassandra.exceptions."
            "ConfigurationException: /127.0.0.1:7000 is in use by another process.  Change listen_address:storage_port",
            PortBusy,
            "Port 7000 .* --storage-port",
        ),
        ("java.io.IOException: No space left on device", DiskFull, "too little room"),
        ("FSWriteError: Insufficient disk space", DiskFull, "too little room"),
        ("Error occurred during initialization of VM\nCould not reserve enough space", TooLittleMemory, "1424 MB"),
        ("# There is insufficient memory for the Java Runtime Environment to continue", TooLittleMemory, "1424 MB"),
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", TooLittleMemory, "heap of 1024 MB"),
        ("java.lang.UnsupportedClassVersionError: org/apache/...", WrongJava, "can't run Cassandra"),
        ("Unrecognized VM option 'Foo'\nError: Could not create the Java Virtual Machine", WrongJava, "can't run"),
    ],
)
def test_known_causes(tmp_path: Path, words: str, kind: type[LocalError], said: str) -> None:
    error = explain(tmp_path, console=words)
    assert type(error) is kind
    assert re.search(said, str(error))


def test_the_options_that_the_server_logs_are_no_cause(tmp_path: Path) -> None:
    log = (
        "INFO  [main] - JVM Arguments: [-XX:+ExitOnOutOfMemoryError, -Xmx1024m]\n"
        "ERROR [main] 2026-01-01 00:00:00,000 X.java:1 - Saved cluster name Other != configured name minutehand\n"
    )
    error = explain(tmp_path, log=log)
    assert type(error) is StartFailed
    assert "Saved cluster name Other != configured name minutehand" in error.problem
    assert "system.log" in error.remedy


def test_a_server_that_was_killed_had_too_little_memory(tmp_path: Path) -> None:
    assert type(explain(tmp_path, log="INFO  [main] x - all is well", code=137)) is TooLittleMemory


def test_a_server_that_said_nothing(tmp_path: Path) -> None:
    error = explain(tmp_path, code=3)
    assert "ended with code 3" in error.problem
    assert "console.log" in error.remedy


def test_the_last_complaint_is_found_above_its_stack() -> None:
    text = "INFO - fine\nCaused by: java.lang.IllegalStateException: no seeds\n\tat a.b(C.java:1)\n\tat d.e(F.java:2)\n"
    assert last_complaint(text) == "Caused by: java.lang.IllegalStateException: no seeds"
    assert last_complaint("INFO - fine\nINFO - still fine\n") == "INFO - fine / INFO - still fine"
