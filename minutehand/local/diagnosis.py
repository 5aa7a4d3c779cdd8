"""Why a server ended: the end of its output, reduced to one error with one sentence."""

import re
from collections.abc import Callable
from pathlib import Path

from minutehand.errors import LocalError
from minutehand.local.errors import DiskFull, PortBusy, StartFailed, TooLittleMemory, WrongJava
from minutehand.local.machine import BESIDE_HEAP_MB, DISK_MB
from minutehand.local.settings import ServerSettings

_TAIL_BYTES = 65_536
_LINES = 5
_KILLED = 128 + 9


def explain_exit(settings: ServerSettings, exit_code: int, *, native_setting: str, storage_setting: str) -> LocalError:
    """The error that says why the server of `settings` ended with `exit_code` (128 + signal) before it answered."""
    log = tail(settings.log_file)
    text = tail(settings.console_file) + "\n" + log
    too_little = TooLittleMemory(
        needed_mb=settings.heap_mb + BESIDE_HEAP_MB, available_mb=None, heap_mb=settings.heap_mb
    )
    signs: tuple[tuple[str, Callable[[], LocalError]], ...] = (
        (
            rf"Failed to bind port {settings.native_port}\b|:{settings.native_port}\b.*(is in use|already in use)",
            lambda: PortBusy(host=settings.host, port=settings.native_port, setting=native_setting),
        ),
        (
            rf":{settings.storage_port}\b.*(is in use|already in use)",
            lambda: PortBusy(host=settings.host, port=settings.storage_port, setting=storage_setting),
        ),
        (
            r"No space left on device|Insufficient disk space|[Dd]isk quota exceeded",
            lambda: DiskFull(directory=settings.data_dir, available_mb=None, needed_mb=DISK_MB),
        ),
        (
            r"insufficient memory for the Java Runtime|Could not reserve enough space|java\.lang\.OutOfMemoryError"
            r"|Cannot allocate memory|Too small (initial|maximum) heap",
            lambda: too_little,
        ),
        (
            r"UnsupportedClassVersionError|Unrecognized VM option|Unsupported Java|Could not create the Java Virtual",
            lambda: WrongJava("The Java runtime can't run Cassandra 5.0."),
        ),
    )
    for pattern, error in signs:
        if re.search(pattern, text):
            return error()
    if exit_code == _KILLED:
        # Only the system sends KILL to a starting server: it does so when memory runs out.
        return too_little
    reason = last_complaint(text) or f"it ended with code {exit_code} and without output."
    return StartFailed(reason=reason, log_file=settings.log_file if log else settings.console_file)


def tail(path: Path) -> str:
    """The end of a file; empty when it does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _TAIL_BYTES, 0))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def last_complaint(text: str) -> str:
    """The last line with an error or an exception, without time, level and logger; else the last lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if re.match(r"(ERROR|FATAL)\b", line):
            return line.partition(" - ")[2] or line
        if re.match(r"(Caused by: |Exception |[\w.$]+(Exception|Error): )", line):
            return line
    return " / ".join(line for line in lines[-_LINES:] if not line.startswith("at "))
