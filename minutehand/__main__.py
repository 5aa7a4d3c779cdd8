"""The `minutehand` command. Every failure ends as one sentence and exit code 1, never as a traceback."""

import signal
import sys

INTERRUPTED = 130
"""What shells answer for a program that SIGINT ended: 128 and the signal's number."""


def heed_interrupts() -> None:
    """Restore SIGINT's default for this program and those it starts. A shell without job control starts background
    commands with SIGINT ignored, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Run the command line; always ends the process."""
    heed_interrupts()
    try:
        # Importing takes a while, and may be interrupted too.
        from minutehand.cli.failures import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
