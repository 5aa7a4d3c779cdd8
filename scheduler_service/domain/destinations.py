"""Destinations: where a client's calls go, under names of the client's own. Pure.

A destination says once what many callbacks share: URL, headers, credentials, limits. A callback names it, and a path
below its URL; so a change of a destination applies to all calls that have not started yet. The row of such a
callback has `destination://NAME/PATH` for a URL, which a node resolves when it starts the attempt (`resolved_url`).

It is stored as a document, encrypted under the key ring like callbacks' headers, because its headers and credentials
are secrets. Name, pause and revision are stored beside it in the clear.
"""

import re
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from scheduler_service.domain.destination_access import ClientCertificate, ForwardProxy, Unsaid
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.options import Headers, RetryOverride, Undecodable
from scheduler_service.domain.targets import HTTP, Target

DESTINATION_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,62}$"
DESTINATIONS_SINCE: Final = 25
"""The migration from which on programs know destinations."""
MAX_DESTINATIONS: Final = 100
"""Destinations of one client: a node holds all of them."""
MAX_DESTINATIONS_BYTES: Final = 1_000_000
"""Bytes of all documents of one client together, as they are stored: nodes read those of many clients at a time."""
MAX_PATH_LENGTH: Final = 2_048
"""Characters of the path that a callback has below its destination's URL, with its query."""
_NOT_IN_PATH = re.compile(r"[^\x21-\x7e]|[\\#]")
_SLASH = re.compile(r"[/\\]")
_END_OF_SEGMENT = re.compile(r"[;\0]")
_DECODINGS: Final = 8
"""A path that is encoded more often is taken for one with dot segments."""
_SCHEME: Final = "destination://"
_NAMED = re.compile(r"destination://([a-z0-9][a-z0-9._-]{0,62})(/.*)?", re.DOTALL)


class TokenSource(Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a node gets the bearer token of a destination's calls, by the client-credentials grant of OAuth 2 (RFC
    6749, 4.4). Exactly one of `token_url` and `issuer`, whose token endpoint OpenID Connect Discovery 1.0 finds.

    `id_token`: send the answer's `id_token` instead of its `access_token`. `authentication`: how the secret is sent
    (`client_secret_basic`, `client_secret_post`). `audience` and `scope` are sent if given."""

    client_id: str
    client_secret: str
    token_url: str | None = None
    issuer: str | None = None
    scope: str | None = None
    audience: str | None = None
    authentication: Literal["basic", "post"] = "basic"
    id_token: bool = False


class CloudEvents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Send calls as CloudEvents 1.0 in binary mode: with these values of `type` and `source`."""

    type: str
    source: str


class Destination(Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The document. `max_per_second` and `max_in_flight` hold over all nodes; None: as a host without limits of its
    own. None otherwise: as the client's settings say.

    Has a `url` or a `target`. Programs that know no targets can't decode a document without a URL: to them the
    destination is locked, so they defer its calls.
    """

    url: str = ""
    method: str = "POST"
    headers: Headers = ()
    timeout_seconds: float | None = None
    retry: RetryOverride | None = None
    max_per_second: float | None = None
    max_in_flight: int | None = None
    certificate: ClientCertificate | None = None
    token: TokenSource | None = None
    proxy: ForwardProxy | None = None
    cloudevents: CloudEvents | None = None
    target: Target | None = None

    @property
    def kind(self) -> str:
        return HTTP if self.target is None else self.target.kind

    @property
    def address(self) -> str:
        """Where its calls go, in one line."""
        return self.url if self.target is None else self.target.address


class StoredDestination(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `document` is JSON of a `Destination`, sealed; `revision` grows with every change, a pause included.
    `paused_at`: since when its calls wait; None: they are made."""

    client_id: ClientId
    name: str
    document: str
    revision: int
    created_at: UnixMillis
    changed_at: UnixMillis
    paused_at: UnixMillis | None = None

    @property
    def size(self) -> int:
        """Bytes of the document."""
        return len(self.document.encode())


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Destination).decode


def encode_destination(destination: Destination) -> str:
    """The document in the clear."""
    return _encode(destination).decode()


def decode_destination(document: str) -> Destination:
    """Raises Undecodable, which says nothing of what the document holds."""
    try:
        destination = _decode(document)
    except (msgspec.DecodeError, RecursionError):
        raise Undecodable("the destination can't be decoded") from None
    if not destination.url and destination.target is None:
        raise Undecodable("the destination has neither URL nor target")
    return destination


class NamedUrl(NamedTuple):
    """What a row's URL says: a destination, and the path below its URL ("" or one that begins with a slash)."""

    name: str
    path: str


def named_url(name: str, path: str) -> str:
    """The URL that a row has for a callback that names a destination."""
    return f"{_SCHEME}{name}{path}"


def names_destination(url: str | None) -> bool:
    return url is not None and url.startswith(_SCHEME)


def read_named_url(url: str) -> NamedUrl | None:
    """None: the URL is a receiver's own."""
    if not url.startswith(_SCHEME):
        return None
    found = _NAMED.fullmatch(url)
    return None if found is None else NamedUrl(found[1], found[2] or "")


def resolved_url(base: str, path: str) -> str:
    """The URL of a call: the path is appended to that of the base; a query of the base stays, with that of the path
    behind it."""
    if not path:
        return base
    head, _, base_query = base.partition("?")
    below, _, query = path.partition("?")
    joined = "&".join(part for part in (base_query, query) if part)
    return head.rstrip("/") + below + ("?" + joined if joined else "")


def path_fault(path: str) -> str | None:
    """Why a callback may not have this path below its destination's URL, as a sentence; None: it may. It stays below
    it: dot segments, which receivers and proxies resolve differently, are refused however they are written."""
    if len(path) > MAX_PATH_LENGTH:
        return f"is longer than {MAX_PATH_LENGTH} characters"
    if not path.startswith("/"):
        return "must begin with a slash"
    if _NOT_IN_PATH.search(path):
        return "has a fragment, a space, a backslash, a control or a non-ASCII character; percent-encode it"
    if _has_dot_segment(path.partition("?")[0]):
        return "has a dot segment"
    return None


def _has_dot_segment(path: str) -> bool:
    """Whether one is there for any receiver: decoded as often as that changes something, a backslash being a slash, and
    what follows a semicolon or a null a parameter."""
    for _ in range(_DECODINGS):
        path, before = unquote(path), path
        if path == before:
            break
    else:
        return True
    return any(_END_OF_SEGMENT.split(segment, 1)[0] in (".", "..") for segment in _SLASH.split(path))
