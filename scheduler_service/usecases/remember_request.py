"""Remember: what a request under an idempotency key is about to make, before it is made.

    choose ids -> keep them IF nothing is kept under the key -> make exactly these -> answer
                          |
                          +-- something is: the same request -> make what is missing of those, answer them
                                            another one      -> refused

So of any number of requests under one key, at once or one after another, one has chosen. Whoever dies on the way is
made up for by the next who asks. What is refused as a whole keeps nothing; where the refusal came only after the key
was kept (somebody else was faster at the very thing), a repeat is judged anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.errors import KeyReused
from scheduler_service.domain.idempotency import Kept, Keyed
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.ports import IdempotencyStore


@dataclass(frozen=True, slots=True)
class Remembered:
    """What stands for the request: make exactly `ids`, as asked for at `at`. `replayed`: somebody has begun before."""

    ids: tuple[UUID, ...]
    at: UnixMillis
    replayed: bool


class RememberRequest:
    """For every verb that makes something. Whether its caller may do so is that verb's to say."""

    def __init__(self, *, keys: IdempotencyStore) -> None:
        self._keys = keys

    async def __call__(self, keyed: Keyed, *, ids: Sequence[UUID], at: int) -> Remembered:
        """These, unless somebody was faster. Raises KeyReused; StoreUnavailable when it stays unknown: ask again."""
        ours = Kept(fingerprint=keyed.fingerprint, ids=tuple(ids), created_at=UnixMillis(at))
        kept: Kept | None
        match await self._keys.keep(keyed.client_id, keyed.key, ours):
            case Applied():
                kept = ours
            case Rejected(current=current):
                kept = current
            case Unknown():
                kept = await self._keys.read(keyed.client_id, keyed.key)
        if kept is None:
            raise StoreUnavailable("no answer about the idempotency key")
        return _remembered(keyed, kept, replayed=kept != ours)

    async def known(self, keyed: Keyed) -> Remembered | None:
        """What was begun under this key, if anything was. Raises as above."""
        kept = await self._keys.read(keyed.client_id, keyed.key)
        return None if kept is None else _remembered(keyed, kept, replayed=True)


def _remembered(keyed: Keyed, kept: Kept, *, replayed: bool) -> Remembered:
    if kept.fingerprint != keyed.fingerprint:
        raise KeyReused("another request was made under this Idempotency-Key within the last 24 hours")
    return Remembered(kept.ids, kept.created_at, replayed)
