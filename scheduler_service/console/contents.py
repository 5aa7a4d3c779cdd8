"""Bodies and headers of requests on pages: masked, or as they are."""

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

SHOW_CONTENT: Final = "show_content"
"""The action that the audit log has of a caller who asks for what is masked."""
HIDDEN: Final = "•••"


class Content(NamedTuple):
    """A request as a page shows it. `address`: its URL, or its destination and path. `headers` None: they can't be
    read. `body` None: it has none of its own, and the schedule's facts are sent as JSON."""

    method: str
    address: str
    headers: Mapping[str, str] | None
    body: str | None


def address_of(callback: Mapping[str, Any]) -> str:
    return str(callback.get("url") or callback.get("destination", "") + callback.get("path", ""))


def unmasked(callback: Mapping[str, Any]) -> Content:
    """Credentials stay as the API answers them: masked."""
    body = callback.get("body")
    if body is None and "body_base64" in callback:
        body = callback["body_base64"]
    return Content(callback.get("method", ""), address_of(callback), callback["headers"], body)


def masked(callback: Mapping[str, Any]) -> Content:
    """Only the names of headers, and the size of the body."""
    headers, size = callback["headers"], _size(callback)
    return Content(
        callback.get("method", ""),
        address_of(callback),
        None if headers is None else dict.fromkeys(headers, HIDDEN),
        None if size is None else f"{HIDDEN} ({size:,} byte{'' if size == 1 else 's'})",
    )


def _size(callback: Mapping[str, Any]) -> int | None:
    if "body_base64" in callback:
        return len(base64.b64decode(callback["body_base64"]))
    return len(callback["body"].encode()) if "body" in callback else None
