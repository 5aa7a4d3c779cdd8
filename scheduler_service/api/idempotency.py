"""The header `Idempotency-Key`: read, and answered. What a key does is in `usecases.remember_request`.

A route that takes it is marked `Route.idempotent`, and answers 200 with REPLAYED what was asked for before.
"""

from collections.abc import Mapping
from typing import Final

from scheduler_service.api.http.route import Call
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.idempotency import MAX_KEY, Keyed, fingerprint_of, is_key

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
REPLAYED: Final[Mapping[str, str]] = {"Idempotency-Replayed": "true"}


def keyed_of(call: Call, body: bytes = b"") -> Keyed | None:
    """What a request asks under a key, if it has one. `body` as it was sent; nothing for verbs that take none.

    Raises Invalid for a key that is none.
    """
    keys = call.request.headers.getall(IDEMPOTENCY_KEY, ())
    if not keys:
        return None
    if len(keys) > 1:
        raise Invalid([FieldError(f"/{IDEMPOTENCY_KEY}", "is given more than once")])
    if is_key(keys[0]) is None:
        raise Invalid([FieldError(f"/{IDEMPOTENCY_KEY}", f"must be 1 to {MAX_KEY} visible ASCII characters")])
    path = call.request.rel_url.raw_path
    return Keyed(call.client_id, keys[0], fingerprint_of(call.request.method, path, body))
