"""The domain's errors. Each says what is wrong in words for the reader who must act, and whether to try again."""

from typing import NamedTuple
from uuid import UUID

from membership.errors import MinutehandError, StoreUnavailable


class FieldError(NamedTuple):
    """One thing wrong with a request: where (a JSON pointer) and what."""

    pointer: str
    detail: str


class Invalid(MinutehandError):
    """A request that can never succeed unchanged. Carries every fault found, not just the first. `more`: the search
    stopped early, and there may be others."""

    def __init__(self, errors: list[FieldError], *, more: bool = False) -> None:
        super().__init__(errors)
        self.errors = errors
        self.more = more

    def __str__(self) -> str:
        return "; ".join(f"{error.pointer or '/'}: {error.detail}" for error in self.errors)


class NotFound(MinutehandError):
    """Nothing has that name, or nothing that the caller may know of."""


class Conflict(MinutehandError):
    """The current state excludes the request. `kind` is the last word of the problem type. `rescheduled_to`: the
    schedule that is called instead."""

    def __init__(self, kind: str, detail: str, *, state: str | None = None, rescheduled_to: UUID | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.state = state
        self.rescheduled_to = rescheduled_to


class ClientSuspended(MinutehandError):
    """The client is suspended: reads and cancels work, creates don't."""


class KeyReused(MinutehandError):
    """The idempotency key was used before with a different request."""


class PreconditionFailed(MinutehandError):
    """What the request is about is not what its caller has seen (If-Match, If-None-Match)."""


class ContentTooLarge(MinutehandError):
    """More bytes than one request to the store may carry."""


class Overloaded(StoreUnavailable):
    """A bounded queue is full. Nothing was sent; try again shortly."""


class ClockInDoubt(MinutehandError):
    """This process's wall clock may be wrong, so it creates nothing. Nothing was sent; another process may succeed."""


class NodeUnreachable(MinutehandError):
    """A node did not answer on its own port. The request may have reached it all the same."""


class SecretLocked(MinutehandError):
    """This process can't decrypt a signing secret or headers. Names the missing key, nothing else."""

    def __init__(self, detail: str, *, key_id: str) -> None:
        super().__init__(detail)
        self.key_id = key_id


class InvalidRule(MinutehandError):
    """A cron's rule is not valid. `field` is the field to change, `reason` says why and what would be valid."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
