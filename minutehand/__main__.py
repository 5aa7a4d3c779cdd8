"""The `minutehand` command. Whatever goes wrong ends as one sentence and exit code 1, never as a traceback."""

import sys


def main() -> None:
    """Run the command line; always ends the process."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("The commands need more than the SDK: install them with pip install 'minutehand[server]'.")
    from minutehand.cli.failures import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
