"""The errors that calls raise."""

import msgspec

from minutehand.client._models import Fault, Problem


class MinutehandClientError(Exception):
    """The root of this package's errors."""


class MinutehandUnreachable(MinutehandClientError):
    """There was no answer, or one that is not Minutehand's. The request may have taken effect, unless `sent` is False:
    no connection was made. `passing`: a repeat may be answered."""

    def __init__(self, message: str, *, passing: bool = False, sent: bool = True) -> None:
        super().__init__(message)
        self.passing = passing
        self.sent = sent


class MinutehandApiError(MinutehandClientError):
    """The API refused. `str(error)` is its reason with every fault; `problem` is the whole document. Raised as the
    class of its status, where there is one: `NotFound`, `Conflict` and the others."""

    def __init__(self, problem: Problem, *, retry_after_seconds: float | None = None) -> None:
        faults = "; ".join(f"{fault.pointer or '/'} {fault.detail}" for fault in problem.errors)
        detail = problem.detail or problem.title
        super().__init__(f"{detail}: {faults}" if faults else detail)
        self.problem = problem
        self.retry_after_seconds = retry_after_seconds

    @property
    def status(self) -> int:
        return self.problem.status

    @property
    def kind(self) -> str:
        """The stable name of the refusal, such as `not-found` or `in-flight`."""
        return self.problem.kind

    @property
    def errors(self) -> tuple[Fault, ...]:
        """Every fault of an invalid request."""
        return self.problem.errors


class Unauthorized(MinutehandApiError):
    """401: the key is missing, unknown, revoked or expired."""


class Forbidden(MinutehandApiError):
    """403: the key is good, but not for this."""


class NotFound(MinutehandApiError):
    """404: there is no such thing, or none that this key may see."""


class Conflict(MinutehandApiError):
    """409: what is there does not allow it; `kind` says what, such as `in-flight`."""


class PreconditionFailed(MinutehandApiError):
    """412: it was changed meanwhile, or is there already."""


class InvalidRequest(MinutehandApiError):
    """422: `errors` has every fault."""


class TooManyRequests(MinutehandApiError):
    """429: beyond a rate or budget; `retry_after_seconds` says how long to wait."""


class Unavailable(MinutehandApiError):
    """503: storage, or the API itself, can't answer now."""


_OF_STATUS: dict[int, type[MinutehandApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    422: InvalidRequest,
    429: TooManyRequests,
    503: Unavailable,
}
_A_PROXYS = (429, 502, 503, 504)
"""Statuses that a proxy answers while no API behind it is available."""
_decode_problem = msgspec.json.Decoder(Problem).decode


def error_of(status: int, content_type: str, body: bytes, retry_after: str | None) -> MinutehandClientError:
    """The error for an answer with a status of 300 or more."""
    seconds = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
    if content_type.partition(";")[0].strip() == "application/problem+json":
        try:
            return _OF_STATUS.get(status, MinutehandApiError)(_decode_problem(body), retry_after_seconds=seconds)
        except msgspec.DecodeError:
            pass
    message = f"the answer, HTTP status {status}, is not Minutehand's: is the address right?"
    return MinutehandUnreachable(message, passing=status in _A_PROXYS)


def unreachable(url: str, error: Exception, *, passing: bool, sent: bool) -> MinutehandUnreachable:
    """The error for a request that got no answer."""
    reason = str(error).partition("] ")[2] or str(error) or type(error).__name__
    return MinutehandUnreachable(f"Minutehand does not answer at {url} ({reason})", passing=passing, sent=sent)
