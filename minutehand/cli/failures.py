"""Turns exceptions into sentences and exit codes; commands fail nowhere else."""

import os
import sys
from collections.abc import Sequence

from minutehand.cli.app import app, help_of
from minutehand.cli.output import printable

INTERRUPTED = 130
PIPE_CLOSED = 141
"""What shells answer for a program that SIGPIPE ended: 128 and the signal's number."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line; answers its exit code. A reader that has enough, such as `head`, ends it without a word."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes what is left at the end of the process, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _run(arguments: Sequence[str]) -> int:
    """Raises BrokenPipeError."""
    try:
        if (text := help_of(arguments)) is not None:
            print(text)
            return 0
        app(list(arguments), prog_name="minutehand")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            # typer handles it by an exit code of its own.
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        say(sentence_for(error))
        return 1
    return 0


def sentence_for(error: Exception) -> str:
    """The sentence for the user. Only unexpected exceptions name a Python type."""
    from membership.errors import MinutehandError
    from minutehand.client import MinutehandApiError, MinutehandClientError, MinutehandUnreachable
    from minutehand.config_values import ConfigurationInvalid
    from minutehand.errors import LocalError

    match error:
        case MinutehandApiError():
            return _ended(f"Minutehand refused ({error.status} {error.kind}): {error}")
        case MinutehandUnreachable() if "certificate verify failed" in str(error):
            return _ended(f"{error}; name the authorities that signed it with --ca-file or MINUTEHAND_CA_FILE")
        case MinutehandUnreachable():
            return _ended(f"{error}; start the API, or name another with --url or MINUTEHAND_URL")
        case ConfigurationInvalid():
            return "\n".join(_ended(str(fault)) for fault in error.faults)
        case MinutehandClientError() | MinutehandError() | LocalError():
            return _ended(str(error))
        case OSError():
            return _ended(f"The system refused: {_of_system(error)}")
        case ValueError() if str(error):
            return _ended(str(error))
        case _:
            return _ended(f"This is a fault of Minutehand's, please report it: {type(error).__name__}: {error}")


def _of_system(error: OSError) -> str:
    """What failed on which file, without the error's number and quotes."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def say(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)


def _ended(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
