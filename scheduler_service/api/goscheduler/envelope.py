"""The form of answers on GoScheduler's wire. Pure.

    {"status": {"statusCode": 201, "statusMessage": "Success", "statusType": "Success", "totalCount": 1}, "data": ...}
    {"status": {"statusCode": 4001, "statusMessage": "...", "statusType": "Fail"}}

Every success has the HTTP status 200, also where its `statusCode` is 201. Refusals have GoScheduler's codes where it
has one, and then its HTTP status; all others have the HTTP status of ours (`api.problems`) as their code, too. Faults
of a request are listed in one message, separated by commas.
"""

from collections.abc import Mapping
from typing import Final

from scheduler_service.api.problems import Problem, Refusal

SUCCESS: Final = "Success"
FAIL: Final = "Fail"
OK: Final = 200
MADE: Final = 201
INVALID: Final = 400
NOT_FOUND: Final = 404
UNKNOWN_APP: Final = 4001
DEACTIVATED: Final = 4002
ACTIVATED: Final = 4003
UNKNOWN_ACTION: Final = 4005
UNREADABLE: Final = 5001
NOT_STORED: Final = 5004
"""Storage, or this process, failed."""

_CODES: Final[Mapping[str, int]] = {
    "invalid": INVALID,
    "malformed": UNREADABLE,
    "unsupported-media-type": UNREADABLE,
    "content-too-large": INVALID,
    "client-suspended": DEACTIVATED,
    "client-deleted": UNKNOWN_APP,
    "not-found": NOT_FOUND,
}
"""By kind of problem."""
_AS_400: Final = frozenset({INVALID, UNKNOWN_APP, DEACTIVATED, ACTIVATED, UNKNOWN_ACTION, UNREADABLE})


class WireRefusal(Refusal):
    """A refusal with one of GoScheduler's codes."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__("not-found" if code == NOT_FOUND else "malformed", detail)
        self.code = code


def success(data: object, *, code: int = OK, count: int = 0) -> dict[str, object]:
    """The body of a success. `count`: as many as GoScheduler counts, which is 0 for some lists."""
    return {"status": succeeded(code, count), "data": data}


def succeeded(code: int, count: int) -> dict[str, object]:
    return {"statusCode": code, "statusMessage": SUCCESS, "statusType": SUCCESS, "totalCount": count}


def refusal(problem: Problem, error: Exception | None) -> tuple[int, object]:
    """The HTTP status and body of a refusal."""
    if isinstance(error, WireRefusal):
        code = error.code
    elif problem.status >= 500:
        code = NOT_STORED
    else:
        code = _CODES.get(problem.type.rpartition("/")[2], problem.status)
    status = 400 if code in _AS_400 else problem.status
    named = [f"{_field(fault.pointer)} {fault.detail}".strip() for fault in problem.errors]
    message = ", ".join(named) or problem.detail
    return status, {"status": {"statusCode": code, "statusMessage": message, "statusType": FAIL}}


def _field(pointer: str) -> str:
    """A JSON pointer as a caller of this wire would name the field."""
    return pointer.removeprefix("/").replace("/", ".")
