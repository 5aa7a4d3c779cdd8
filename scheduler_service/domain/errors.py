"""Errors of the vocabulary: each says what is wrong in words for the reader who must act, and whether to try again."""

from typing import NamedTuple
from uuid import UUID

from membership.errors import MinutehandError, StoreUnavailable


class FieldError(NamedTuple):
    """One thing wrong with a request: where (a JSON pointer) and what."""

    pointer: str
    detail: str


class Invalid(MinutehandError):
    """A request that can never succeed as it is. Carries every fault found, not just the first. `more`: there are
    others, which nobody looked for."""

    def __init__(self, errors: list[FieldError], *, more: bool = False) -> None:
        super().__init__(errors)
        self.errors = errors
        self.more = more

    def __str__(self) -> str:
        return "; ".join(f"{error.pointer or '/'}: {error.detail}" for error in self.errors)


class NotFound(MinutehandError):
    """There is nothing by that name, or nothing that the caller may know of."""


class Conflict(MinutehandError):
    """The thing is in a state that excludes the request. `kind` is the problem type's last word. `rescheduled_to`: the
    schedule that is called instead."""

    def __init__(self, kind: str, detail: str, *, state: str | None = None, rescheduled_to: UUID | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.state = state
        self.rescheduled_to = rescheduled_to


class ClientSuspended(MinutehandError):
    """The client is suspended: reads and cancels work, creates don't."""


class KeyReused(MinutehandError):
    """The idempotency key stands for another request already."""


class ContentTooLarge(MinutehandError):
    """More bytes than one request to the store may carry."""


class Overloaded(StoreUnavailable):
    """A bounded queue is full. Nothing was sent; try again a little later."""


class ClockInDoubt(MinutehandError):
    """This process's wall clock may be wrong: it places nothing by it. Nothing was sent; another process may do it."""


class NodeUnreachable(MinutehandError):
    """A node did not answer on its own port. What it was told may have reached it all the same."""


class SecretLocked(MinutehandError):
    """A signing secret, or headers, that this process can't decrypt. Names the key that it would take, nothing else."""

    def __init__(self, detail: str, *, key_id: str) -> None:
        super().__init__(detail)
        self.key_id = key_id


class InvalidRule(MinutehandError):
    """A rule that can't be followed. `field` is the cron's field to change, `reason` says why and what would do."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
