"""HTTP/2 sessions and streams of a caller, without a connection."""

from typing import Any

from poller_cluster.delivery.http2.session import Session
from poller_cluster.delivery.http2.stream import Stream
from tests.support import http2_frames as h2
from tests.support.http2_frames import Frame, frames_of, settings

RESPONSE_BYTES = 65_536
FRAMING_BYTES = 393_216
BLOCK = h2.block((":method", "POST"), (":scheme", "https"), (":authority", "h"), (":path", "/"))
NO_TABLE = b"\x20"


def stream(**differing: Any) -> Stream[str]:
    values: dict[str, Any] = {
        "response_bytes": RESPONSE_BYTES,
        "framing_bytes": FRAMING_BYTES,
        "excerpt_bytes": 10,
        "observed": False,
    }
    return Stream("an attempt", **(values | differing))


def session(**given: int) -> Session[str]:
    """A session that has received the receiver's settings, with its own output about them discarded."""
    made: Session[str] = Session()
    made.receive(settings(**given))
    made.take()
    return made


def begun(on: Session[str], body: bytes = b"", **differing: Any) -> Stream[str]:
    made = stream(**differing)
    on.request(made, method="POST", block=BLOCK, body=body)
    on.write_bodies(1_000_000)
    return made


def receive_all(to: Session[str], raw: bytes) -> list[Stream[str]]:
    heard = to.receive(raw)
    while to.behind and not to.broken:
        heard += to.receive(b"")
    return heard


def taken(of: Session[str], kind: int) -> list[Frame]:
    return [each for each in frames_of(of.take()) if each.kind == kind]
