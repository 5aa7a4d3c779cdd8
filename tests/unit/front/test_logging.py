"""Log lines are JSON with a stable action and without secrets, those of libraries included."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from scheduler_service.runtime.logging import LoggingSettings, configure_logging


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, config = list(root.handlers), root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**config)


def configured(**settings: str) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(LoggingSettings(**settings), stream=stream, identity={"program": "api"})
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_logger_action_identity_and_ids() -> None:
    stream = configured()
    structlog.get_logger("minutehand.test").info("key-created", client_id="shop")
    (line,) = lines(stream)
    assert list(line) == ["time", "level", "logger", "action", "program", "client_id"]
    assert line["time"].endswith("Z")
    assert {name: line[name] for name in line if name != "time"} == {
        "level": "info",
        "logger": "minutehand.test",
        "action": "key-created",
        "program": "api",
        "client_id": "shop",
    }


def test_the_standard_librarys_lines_take_the_same_form() -> None:
    stream = configured()
    logging.getLogger("membership.observer").warning("members-unread reason=%s", "t")
    logging.getLogger("membership.lease_balancer").error(
        "%s is lost", "a/1", extra={"action": "lease-lost", "poller": "a/1"}
    )
    logging.getLogger("a.library").warning("Something is deprecated")
    members, lease, library = lines(stream)
    assert (members["action"], members["message"]) == ("members-unread", "reason=t")
    assert (lease["action"], lease["message"], lease["poller"]) == ("lease-lost", "a/1 is lost", "a/1")
    assert (library["action"], library["message"]) == ("library-said", "Something is deprecated")


def test_errors_that_the_driver_also_raises_are_logged_once() -> None:
    stream = configured()
    driver = logging.getLogger("cassandra.cluster")
    driver.error("Control connection failed to connect, shutting down Cluster:", exc_info=OSError("refused"))
    driver.error("Error preparing query:")
    (line,) = lines(stream)
    assert line["message"] == "Error preparing query:"


def test_secret_fields_are_masked_in_log_lines() -> None:
    stream = configured()
    hidden = {
        "secret": "s3cr3t",
        "body": "s3cr3t",
        "headers": {"a": "s3cr3t"},
        "authorization": "s3cr3t",
        "key": "s3cr3t",
    }
    structlog.get_logger("minutehand.test").error("oh-no", **hidden)
    assert "s3cr3t" not in stream.getvalue()
    assert lines(stream)[0]["secret"] == "***"


@pytest.mark.parametrize("form", ["json", "console"])
def test_tracebacks_do_not_show_local_variables(form: str) -> None:
    stream = configured(format=form)

    def fail() -> None:
        local = "s3cr3t"
        raise ValueError(len(local))

    try:
        fail()
    except ValueError as error:
        structlog.get_logger("minutehand.test").error("oh-no", exc_info=error)
    assert "ValueError: 6" in stream.getvalue()
    assert "s3cr3t" not in stream.getvalue().replace('"s3cr3t"', "")


def test_libraries_log_from_warning_on_whatever_our_level() -> None:
    stream = configured(level="debug")
    for name in ("minutehand.x", "membership.x", "aiohttp.access", "cassandra.cluster"):
        logging.getLogger(name).info("said-by-%s", name)
        logging.getLogger(name).warning("warned-by-%s", name)
    said = [line["logger"] + ":" + line["level"] for line in lines(stream)]
    assert said == [
        "minutehand.x:info",
        "minutehand.x:warning",
        "membership.x:info",
        "membership.x:warning",
        "aiohttp.access:warning",
    ]
    stream = configured(level="error")
    structlog.get_logger("minutehand.test").warning("too-quiet")
    assert lines(stream) == []


def test_the_console_is_for_people() -> None:
    stream = configured(format="console")
    structlog.get_logger("minutehand.test").info("key-created", client_id="shop")
    assert "key-created" in stream.getvalue()
    assert "client_id=shop" in stream.getvalue()


UNCONFIGURED = """
from cql.decoding import undecodable
from scheduler_service.runtime.logging import get_logger

get_logger("minutehand.test").info("not-said")
try:
    raise ValueError("gone")
except ValueError:
    get_logger("minutehand.test").exception("oh-no", client_id="shop")
undecodable("no JSON", table="crons", key="shop/nightly")
"""


def test_a_process_that_is_not_set_up_says_warnings_on_standard_error_only() -> None:
    done = subprocess.run([sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "not-said" not in done.stderr
    assert "oh-no" in done.stderr
    assert "ValueError: gone" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert [word in last for word in ("row-undecodable", "table=crons", "row=shop/nightly")] == [True] * 3


@pytest.mark.parametrize("wrong", [{"level": "loud"}, {"format": "xml"}])
def test_unknown_words_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="use one of"):
        LoggingSettings(**wrong)
