"""A command started in the background of a script, where SIGINT is ignored, can be interrupted nevertheless."""

import os
import signal
import socket
import subprocess
import sys

from minutehand.cli.failures import INTERRUPTED


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
