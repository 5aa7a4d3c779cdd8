"""The callback of a schedule or a cron, as options."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minutehand.cli.output import fail

if TYPE_CHECKING:
    from minutehand.client import Callback, CallbackUpdate

CallbackUrl = Annotated[
    str | None,
    typer.Argument(
        metavar="CALLBACK_URL",
        help="Where the call goes: http or https. Left out with --destination.",
        show_default=False,
    ),
]
Destination = Annotated[
    str | None,
    typer.Option(
        "--destination", metavar="NAME", help="The destination that the call goes to, by its name.", show_default=False
    ),
]
CallbackPath = Annotated[
    str | None,
    typer.Option(
        "--path", help="The path below the destination's URL: '/orders?id=17'.", metavar="PATH", show_default=False
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method", help="The call's HTTP method. [default: the destination's, else POST]", show_default=False
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="'NAME: VALUE'", help="A header of the call; may be repeated.", show_default=False
    ),
]
Body = Annotated[
    str | None,
    typer.Option(
        "--body",
        help="The call's body, as text; '' for an empty one. A call that has none carries its id, due and attempt as "
        "JSON.",
        show_default=False,
    ),
]
BodyJson = Annotated[
    str | None,
    typer.Option(
        "--body-json", metavar="JSON", help="The call's body, as JSON of that content type.", show_default=False
    ),
]
BodyFile = Annotated[
    Path | None,
    typer.Option("--body-file", metavar="FILE", help="The call's body, any bytes from a file.", show_default=False),
]


FlowKey = Annotated[
    str | None,
    typer.Option(
        "--flow-key", help="Calls with the same key, such as one customer's, share their limits.", show_default=False
    ),
]
FlowRate = Annotated[
    float | None,
    typer.Option(
        "--flow-rate",
        help="Calls a second of the flow key, instead of the client's own; may be below 1.",
        show_default=False,
    ),
]
FlowParallelism = Annotated[
    int | None,
    typer.Option(
        "--flow-parallelism", help="Calls of the flow key at a time, instead of the client's own.", show_default=False
    ),
]
AckSeconds = Annotated[
    float | None,
    typer.Option(
        "--ack-seconds",
        help="The receiver may answer 202, and has this many seconds to say what became of the call.",
        show_default=False,
    ),
]


_PARTS = ("destination", "path", "header", "body", "body_json", "body_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The destination of a call, what the call carries, and its flow key."""

    destination: Destination = None
    path: CallbackPath = None
    header: Header = None
    body: Body = None
    body_json: BodyJson = None
    body_file: BodyFile = None
    flow_key: FlowKey = None
    flow_rate: FlowRate = None
    flow_parallelism: FlowParallelism = None

    def told(self) -> dict[str, Any]:
        """As `read_callback` and `read_callback_update` take it."""
        flow = {"key": self.flow_key, "rate": self.flow_rate, "parallelism": self.flow_parallelism}
        parts = {name: getattr(self, name) for name in _PARTS}
        return {**parts, **flow}


def read_callback(
    url: str | None,
    *,
    destination: str | None,
    path: str | None,
    method: str | None,
    header: list[str] | None,
    body: str | None,
    body_json: str | None,
    body_file: Path | None,
    ack_seconds: float | None = None,
    **flow: object,
) -> "Callback":
    """`flow`: key, rate and parallelism. Exits with a sentence where the options don't make a callback."""
    from minutehand.client import Ack, Callback

    if (url is None) == (destination is None):
        fail("Give either CALLBACK_URL or --destination.")
    asked: dict[str, Any] = {"url": url, "destination": destination, "path": path, "method": method}
    asked |= {f"flow_{name}": value for name, value in flow.items()}
    given = {name: value for name, value in asked.items() if value is not None}
    if ack_seconds is not None:
        given["ack"] = Ack(within_seconds=ack_seconds)
    return Callback(headers=read_headers(header or []), **_content(body, body_json, body_file), **given)


def read_callback_update(
    url: str | None,
    *,
    destination: str | None,
    path: str | None,
    method: str | None,
    header: list[str] | None,
    body: str | None,
    body_json: str | None,
    body_file: Path | None,
    **flow: object,
) -> "CallbackUpdate | None":
    """The same for what changes of a callback; None where nothing does."""
    from minutehand.client import CallbackUpdate

    given: dict[str, Any] = {"url": url, "destination": destination, "path": path, "method": method}
    given["headers"] = read_headers(header or []) or None
    given |= {f"flow_{name}": value for name, value in flow.items()}
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= _content(body, body_json, body_file)
    return CallbackUpdate(**changes) if changes else None


def read_headers(given: list[str]) -> dict[str, str]:
    """Exits with a sentence where one is no header."""
    headers = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            fail(f"--header {text!r} is not of the form 'NAME: VALUE'.")
        headers[name.strip()] = value.strip()
    return headers


def _content(body: str | None, body_json: str | None, body_file: Path | None) -> dict[str, Any]:
    if sum(one is not None for one in (body, body_json, body_file)) > 1:
        fail("Give only one of --body, --body-json and --body-file.")
    if body_json is not None:
        import msgspec

        try:
            return {"json": msgspec.json.decode(body_json)}
        except msgspec.DecodeError as error:
            fail(f"--body-json is not JSON: {error}.")
    if body_file is not None:
        try:
            return {"body_base64": body_file.read_bytes()}
        except OSError as error:
            fail(f"{body_file} can't be read: {error.strerror}.")
    return {} if body is None else {"body": body}
