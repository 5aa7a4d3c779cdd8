"""Commands that a shell ends: by SIGINT, even where it is ignored, or because the reader of a pipe has enough."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from minutehand.cli.failures import INTERRUPTED, PIPE_CLOSED


def test_a_command_whose_shell_ignores_sigint_is_interrupted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "minutehand", "clients", "list", "--url", url, "--key", "k"]
        background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
        with subprocess.Popen(background, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"}) as started:
            try:
                silent.settimeout(20)
                connection, _ = silent.accept()
                with connection:
                    started.send_signal(signal.SIGINT)
                    assert started.wait(20) == INTERRUPTED, started.stderr
            finally:
                started.kill()


@pytest.mark.parametrize("arguments", [["schedules", "create", "-h"], ["--version"], ["config"]])
def test_a_command_whose_reader_has_enough_ends_without_a_word(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "minutehand", *arguments]
    with os.fdopen(writer, "wb") as output:
        ended = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, timeout=20, check=False)
    assert (ended.returncode, ended.stderr) == (PIPE_CLOSED, b"")
