"""One HTTP request to a receiver, complete and signed."""

import msgspec


class CallbackRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What goes on the wire: `headers` are all headers, the user's and ours, in order.

    `client_id`: whose share of look-ups of names it takes.

    `at_most_once`: never repeat the request, not even when a kept connection turned out to be dead.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout_seconds: float
    at_most_once: bool = False
    client_id: str = ""
