"""Changes of rows that have a revision: clients, destinations, subscriptions.

    read -> decide -> write IF the revision is as read (rejected: decide again, from what is stored)

Every change is written, under the next revision, even if the row is as requested already. An earlier write without an
answer may still be in flight; it expects the previous revision, so it can't take effect afterwards. An earlier change
may also lack its announcement, which this one makes again. So an answer stays true, and all processes hear of it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, TypeVar

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable

MAX_REVISION_TURNS: Final = 20
"""Consecutive rejections after which a change fails: other callers keep changing this row."""
_NEVER: Final = 0
"""No row has this revision."""


class Revised(Protocol):
    """A row as it is stored."""

    @property
    def revision(self) -> int:
        """Grows with every change."""


R = TypeVar("R", bound=Revised)

Written: TypeAlias = tuple[R, Answer[R | None]]
"""What is to be stored, and storage's answer to that write."""


async def change_row(
    known: R | None, write: Callable[[R | None], Awaitable[Written[R]]], *, what: str
) -> tuple[R | None, R]:
    """What was stored before, and what is now. `known`: as it was read. `write` gets what is stored, and
    raises to refuse. Raises what `write` raises, StoreUnavailable."""
    for _ in range(MAX_REVISION_TURNS):
        wanted, answer = await write(known)
        match answer:
            case Applied():
                return known, wanted
            case Rejected(current=found):
                known = found
            case Unknown():
                raise StoreUnavailable(f"storage did not say whether the {what} was changed; repeat the request")
    raise _changing(what)


async def delete_row(
    known: R | None,
    check: Callable[[R | None], Awaitable[None]],
    delete: Callable[[int], Awaitable[Answer[R | None]]],
    *,
    what: str,
) -> None:
    """`check` raises if what is stored is not to be deleted; None, which it must refuse: there is no row. It is asked
    that after one `delete` of a revision that no row has: an earlier call may have deleted the row unannounced. Raises
    what `check` raises, StoreUnavailable."""
    for _ in range(MAX_REVISION_TURNS):
        if known is not None:
            await check(known)
        match await delete(_NEVER if known is None else known.revision):
            case Applied():
                return
            case Rejected(current=found):
                if (known := found) is None:
                    await check(None)
            case Unknown():
                raise StoreUnavailable(f"storage did not say whether the {what} was deleted; repeat the request")
    raise _changing(what)


def _changing(what: str) -> StoreUnavailable:
    return StoreUnavailable(f"others keep changing this {what}; repeat the request")
