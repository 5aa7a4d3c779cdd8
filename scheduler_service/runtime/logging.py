"""Logs: one line per event that matters to an operator, each with a stable `action` and ids, never payloads or secrets.

    log = get_logger("minutehand.api")
    log.warning("storage-lost", reason=reason)

    {"time": "2026-11-21T09:30:00.250Z", "level": "warning", "logger": "minutehand.api", "action": "storage-lost", ...}

The first word of the event is the action; the rest, if any, is the `message`. `runtime.log_actions` lists all actions.
Lines of the standard library's `logging`, which membership uses, get the same form; those of libraries have the action
`library-said`. Libraries log from `warning` up, the Cassandra driver from `error`, because we log the same events once.
"""

import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "console")
_HIDDEN = frozenset({"authorization", "body", "headers", "key", "password", "payload", "secret", "token", "url"})
_LIBRARY_LEVELS = {"cassandra": logging.ERROR, "asyncio": logging.WARNING, "aiohttp": logging.WARNING}
_RAISED_TOO = "Control connection failed to connect"
"""The driver logs this with a stack trace and also raises it at a first connection; we report the raised error."""
_ACTION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
_OURS = ("minutehand", "membership")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """What a process logs to its standard error. Raises ValueError for unknown words."""

    level: str = "info"
    """Least severe level that is logged: debug, info, warning or error. At info there is no line for each call."""
    format: str = "auto"
    """json (one line an event, for machines), console (for people), or auto: console on a terminal, else json."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level: use one of {', '.join(LEVELS)}")
        if self.format not in FORMATS:
            raise ValueError(f"format: use one of {', '.join(FORMATS)}")


def configure_logging(
    settings: LoggingSettings, *, stream: TextIO | None = None, identity: Mapping[str, str] | None = None
) -> None:
    """Set up logging for the whole process; `identity` (program, node_id) is added to every line. May be repeated."""
    output = stream or sys.stderr
    as_json = settings.format == "json" or (settings.format == "auto" and not output.isatty())
    shared = _arranging(identity or {})
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(as_json, output)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
    for name, least in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(least, level))
    logging.getLogger("cassandra.cluster").addFilter(_is_not_raised)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A module's logger, named after its part of the program.

    In a process without `configure_logging` (a Spark executor, most commands, tests) lines go to the standard library's
    logging, so from `warning` up to standard error: standard output is for results.
    """
    if not structlog.is_configured():
        structlog.configure(
            processors=[structlog.stdlib.filter_by_level, *_arranging({}), *_rendering(False, sys.stderr)],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


def _arranging(identity: Mapping[str, str]) -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _Arrange(identity),
    ]


def _is_not_raised(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_RAISED_TOO)


class _Arrange:
    """Sets the action, adds the process's identity, masks what must not be logged."""

    def __init__(self, identity: Mapping[str, str]) -> None:
        self._identity = dict(identity)

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        said = str(event.pop("event", "")).strip()
        first, _, rest = said.partition(" ")
        named = event.pop("action", None)
        action = named or (first if _ACTION.fullmatch(first) else "library-said")
        arranged: EventDict = {name: event.pop(name) for name in ("time", "level", "logger")}
        arranged["action"] = action
        if said and said != action:
            arranged["message"] = rest if first == action else said
        arranged.update(self._identity)
        # Defence in depth: callers must not log these in the first place.
        arranged.update((name, "***" if name in _HIDDEN else value) for name, value in event.items())
        return arranged


def _rendering(as_json: bool, output: TextIO) -> list[Processor]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=False)]
    return [
        _event_of_action,
        structlog.dev.ConsoleRenderer(
            colors=output.isatty(),
            timestamp_key="time",
            # Other formatters show local variables, which may hold secrets and payloads.
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _event_of_action(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """The console renderer shows the value of `event`, so the action is moved there."""
    event["event"] = event.pop("action")
    return event
