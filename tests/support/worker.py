"""A process that behaves as its arguments say, for tests of process supervision.

    python -m tests.support.worker DIRECTORY NAME [--fail]

It creates a file `NAME-PID` in the directory and runs until SIGTERM or SIGINT, which it adds to the file; with --fail
it exits at once with code 3.
"""

import os
import signal
import sys
from pathlib import Path


def main(directory: str, name: str, *flags: str) -> int:
    """Run; returns the exit code."""
    mark = Path(directory) / f"{name}-{os.getpid()}"
    if "--fail" in flags:
        mark.touch()
        return 3
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    mark.touch()
    received = signal.sigwait(signals)
    with mark.open("a") as file:
        file.write(signal.Signals(received).name)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
