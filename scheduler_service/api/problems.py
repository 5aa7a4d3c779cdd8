"""Refusals as RFC 9457 `application/problem+json`, and the texts of the pages that explain their types.

Every refusal has a kind; its type is the stable path `/problems/KIND`. No message of storage or its driver is repeated.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.errors import (
    ClientSuspended,
    ClockInDoubt,
    Conflict,
    ContentTooLarge,
    FieldError,
    Invalid,
    KeyReused,
    NodeUnreachable,
    NotFound,
    Overloaded,
    PreconditionFailed,
    SecretLocked,
)
from scheduler_service.usecases.authenticate import Forbidden, Unauthenticated

CONTENT_TYPE: Final = "application/problem+json"
MAX_FAULTS = 100
"""Faults listed in one answer."""


class Kind(NamedTuple):
    """One type of problem. `advice` tells the caller what to do about it."""

    status: int
    title: str
    advice: str


KINDS: Final[Mapping[str, Kind]] = {
    "malformed": Kind(400, "Malformed request", "The body is not JSON in UTF-8. `detail` says where the fault is."),
    "unauthorized": Kind(
        401,
        "No valid key",
        "Send a valid key: Authorization: Bearer KEY. Keys may expire, and be revoked.",
    ),
    "forbidden": Kind(
        403, "Not for this key", "The key is valid, but this needs an administrator's, or a key with a wider scope."
    ),
    "client-suspended": Kind(
        403,
        "The client is suspended",
        "Nothing can be created for it until an administrator resumes it. Reading and cancelling still work.",
    ),
    "not-found": Kind(404, "Not found", "Nothing has that name, or nothing that this key may see."),
    "method-not-allowed": Kind(405, "Method not allowed", "The Allow header lists the methods of this path."),
    "request-timeout": Kind(
        408, "Request time-out", "The request did not arrive in time. Send it faster, or send less."
    ),
    "conflict": Kind(409, "Conflict", "The current state excludes the request; `detail` says why."),
    "in-flight": Kind(
        409,
        "The schedule is being called",
        "A node has claimed it and may be calling the receiver right now. Look again in a few seconds.",
    ),
    "in-doubt": Kind(
        409,
        "The schedule may have been called",
        "A node stopped while it called the receiver, and the answer is unknown. The schedule is called again, marked "
        "as a redelivery, so no other schedule can replace it. Wait for its end, or cancel it: the answer then has "
        "the reason in-doubt, and the schedule is not called again, but may have been called before.",
    ),
    "rescheduled": Kind(
        409,
        "The schedule was rescheduled",
        "`rescheduled_to` is the schedule that is called instead. Send the request for that one: cancelling this one "
        "does not cancel it.",
    ),
    "already-finished": Kind(
        409, "The schedule has ended", "`state` says how. A schedule that has ended can't be cancelled."
    ),
    "destination-deleted": Kind(
        409,
        "Destination deleted",
        "The destination that the callback names does not exist any more: its call would fail.",
    ),
    "undecodable": Kind(
        409,
        "The schedule can't be read",
        "What is stored of it is damaged, or was written by a newer program: its call would fail. Create it again.",
    ),
    "stale-attempt": Kind(
        409,
        "No word about this attempt is awaited",
        "The schedule was called again, under another fence, or another word about this attempt was taken, or its "
        "deadline has passed. What this receiver has done since may have been done by another one, too.",
    ),
    "already-open": Kind(
        409,
        "The schedule has not ended",
        "It is still to be called, or is being redelivered already. Only a schedule that has ended can be redelivered.",
    ),
    "cancelled": Kind(409, "The schedule was cancelled", "A cancel is final: create another schedule."),
    "cron-finished": Kind(
        409,
        "The cron has finished",
        "It has had its last fire. To continue it, put it with another rule or a later end.",
    ),
    "cron-changed": Kind(
        409,
        "The cron has changed",
        "The first request with this Idempotency-Key got no answer and had not stored its run when it was looked for, "
        "and the cron was changed in between. Look at the cron's runs, then trigger it with another key.",
    ),
    "reconciliation-finished": Kind(
        409, "The reconciliation has finished", "It has processed its whole window: there is nothing left to stop."
    ),
    "too-many-reconciliations": Kind(
        409,
        "Too many reconciliations are running",
        "A client may have ten running at the same time. Wait until one finishes, or stop one.",
    ),
    "last-node": Kind(
        409,
        "No other node takes pollers",
        "No calls would be made once this node has drained. Start another node, undrain one, or send the request with "
        "`force=true`.",
    ),
    "node-stopping": Kind(
        409, "The node is being stopped", "It releases its pollers and ends. Once restarted, it takes its share again."
    ),
    "once-refused": Kind(
        409,
        "The token can't be used",
        "The token in `once` is more than 15 minutes old or more than a minute ahead, or names more pollers than the "
        "client's quota. This request did nothing; `Minutehand-Once` has the parts of a new token, and "
        "`Minutehand-Client-Settings` the client's `accept_past_seconds` and `retention_days`. If the same request was "
        "sent before, it may have created its schedules then: list the schedules of their minute. Otherwise send it "
        "with a new token, or under an Idempotency-Key.",
    ),
    "too-many-crons": Kind(
        409,
        "Too many crons",
        "The client has as many crons as its setting `max_crons` allows: delete some, or ask for a higher limit. Or it "
        "has twice as many, counting those deleted within its retention: wait, or reuse the id of a deleted one.",
    ),
    "too-many-destinations": Kind(
        409, "Too many destinations", "A client may have 100, because every node holds all of them. Delete some."
    ),
    "destinations-too-large": Kind(
        409,
        "Destinations too large",
        "All destinations of a client may take 1,000,000 bytes together, as they are stored: encrypted, where the "
        "operator has a key ring. Shorten this one, such as its certificate chain, or delete or shorten others.",
    ),
    "no-feed": Kind(
        409,
        "The client has no feed",
        "Its setting `event_feed` is off: switch it on (`PATCH .../settings`), and events are kept from then on.",
    ),
    "feed-in-use": Kind(
        409,
        "Subscriptions need the feed",
        "Without its setting `event_feed` the client's subscriptions send nothing. `detail` names them: delete them "
        "first.",
    ),
    "cursor-expired": Kind(
        409,
        "The cursor is too old",
        "Events are kept for two days, and there may have been others behind this cursor. Begin again with "
        "`after=earliest`.",
    ),
    "too-many-subscriptions": Kind(
        409, "Too many subscriptions", "A client may have 20, because every node holds all of them. Delete some."
    ),
    "older-nodes": Kind(
        409,
        "Older nodes run",
        "The cluster is being upgraded, and a node that runs can't do this yet. Repeat it after the upgrade.",
    ),
    "destination-in-use": Kind(
        409,
        "The destination is in use",
        "Crons, subscriptions or waiting schedules name it, or there are too many of them to look at. `detail` says "
        "which: change or cancel them first. With `force=true` it is deleted all the same, and calls that name it "
        "fail.",
    ),
    "too-many-keys": Kind(
        409, "Too many keys", "A client may have 100 keys that are neither revoked nor expired. Revoke some."
    ),
    "too-many-secrets": Kind(
        409,
        "Too many signing secrets",
        "A client may have ten, two of them key pairs, and each signs every call. Delete one.",
    ),
    "not-suspended": Kind(409, "The client is not suspended", "Only a suspended client can be deleted: suspend it."),
    "client-deleted": Kind(409, "The client was deleted", "Its id stays reserved. Choose another id."),
    "built-in-client": Kind(409, "The client is built in", "An administrator may change its quota, and nothing else."),
    "precondition-failed": Kind(
        412,
        "Precondition failed",
        "It is not as If-Match or If-None-Match say. Nothing changed; look at it again, and decide by its ETag.",
    ),
    "content-too-large": Kind(413, "Content too large", "The body has more bytes than the limit. Send less at once."),
    "unsupported-media-type": Kind(
        415, "Unsupported media type", "Send Content-Type: application/json, in UTF-8 and without Content-Encoding."
    ),
    "invalid": Kind(
        422, "Invalid request", "`errors` lists the faults, up to 100, each with a JSON pointer to where it is."
    ),
    "too-early": Kind(
        425,
        "The answer 202 is not recorded yet",
        "The node that made the call has not recorded its answer. Repeat the same request after Retry-After.",
    ),
    "too-many-trial-calls": Kind(
        429,
        "Too many trial calls",
        "A client may send a few trial calls at the same time, and one a second. Nothing was sent; retry after "
        "Retry-After.",
    ),
    "too-many-creates": Kind(
        429,
        "Too many creates",
        "The client has used up its rate of creates. Nothing was stored; retry after Retry-After. `RateLimit` says "
        "what is left, `RateLimit-Policy` the limit. A client that must create more needs a higher quota or rate.",
    ),
    "too-many-requests": Kind(
        429,
        "Too many requests",
        "The requests of the last seconds have used up the budget of this key's client or administrator; each request "
        "costs about the work that it takes the API to answer it. Nothing was done; retry after Retry-After.",
    ),
    "idempotency-key-reused": Kind(
        422,
        "The idempotency key was used for another request",
        "Within 24 hours a key is valid for one request and its exact repeats. Choose a new key for a new request.",
    ),
    "internal": Kind(
        500, "Internal error", "This is a fault of Minutehand. Its log has the details under the request_id."
    ),
    "overloaded": Kind(
        503,
        "Overloaded",
        "Too many requests are waiting; retry after Retry-After. Nothing was stored, except perhaps a schedule that "
        "was created, or redelivered, after its minute.",
    ),
    "storage-unavailable": Kind(
        503,
        "Storage is not reachable",
        "Storage gave no answer in time. The request may have taken effect; retry after Retry-After.",
    ),
    "clock-in-doubt": Kind(
        503,
        "The clock is in doubt",
        "The clock of this API process differs from the nodes', or has not been compared with them yet: that takes a "
        "second after its start, and needs a running node. Nothing was stored; retry after Retry-After, if possible "
        "with another API process. For operators: correct the machine's clock, or start a node.",
    ),
    "secret-locked": Kind(
        503,
        "A signing secret can't be read",
        "The call can't be signed with all of the client's secrets now, so it is not made. For operators: the API's "
        "log names the missing key of the key ring.",
    ),
    "node-unreachable": Kind(
        503,
        "The node does not answer",
        "It gave no answer on its own port. The request may have reached it; repeating it is harmless.",
    ),
}


class Fault(msgspec.Struct, frozen=True):
    """A fault of a request. `pointer`: a JSON pointer (RFC 6901) into its body, or `/NAME` for a query parameter or
    header."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every refusal. `state`, for conflicts: the state that excludes the request. `rescheduled_to`: the
    schedule that is called instead of the one in the path."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    state: str | None = None
    rescheduled_to: UUID | None = None
    errors: tuple[Fault, ...] = ()


class Refusal(MinutehandError):
    """A refusal that concerns HTTP itself. `headers` are added to the answer."""

    def __init__(self, kind: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = headers or {}


def problem(
    kind: str,
    detail: str,
    *,
    request_id: str,
    state: str | None = None,
    rescheduled_to: UUID | None = None,
    errors: Sequence[FieldError] = (),
) -> Problem:
    """A problem of one of KINDS."""
    known = KINDS[kind]
    return Problem(
        type=f"/problems/{kind}",
        title=known.title,
        status=known.status,
        detail=detail,
        request_id=request_id,
        state=state,
        rescheduled_to=rescheduled_to,
        errors=tuple(Fault(*error) for error in errors),
    )


def problem_of(error: MinutehandError, *, request_id: str, most: int = MAX_FAULTS) -> Problem:
    """The problem that reports an error to the caller, with `most` faults at most."""
    match error:
        case Refusal():
            return problem(error.kind, str(error), request_id=request_id)
        case Invalid():
            count = len(error.errors)
            detail = "1 fault was found" if count == 1 else f"{count} faults were found"
            if error.more or count > most:
                count = min(count, most)
                detail = f"there are more faults than the {count} listed"
            return problem("invalid", detail, request_id=request_id, errors=error.errors[:most])
        case Conflict():
            kind = error.kind if error.kind in KINDS else "conflict"
            return problem(
                kind, str(error), request_id=request_id, state=error.state, rescheduled_to=error.rescheduled_to
            )
        case StoreUnavailable():
            kind = "overloaded" if isinstance(error, Overloaded) else "storage-unavailable"
            return problem(kind, KINDS[kind].advice, request_id=request_id)
        case SecretLocked():
            # The error names the missing key, which only the operator needs to know.
            return problem("secret-locked", KINDS["secret-locked"].advice, request_id=request_id)
        case _:
            for class_, kind in _KIND_OF.items():
                if isinstance(error, class_):
                    return problem(kind, str(error), request_id=request_id)
            return internal_problem(request_id=request_id)


_KIND_OF: Final[Mapping[type[MinutehandError], str]] = {
    NotFound: "not-found",
    Unauthenticated: "unauthorized",
    Forbidden: "forbidden",
    ClientSuspended: "client-suspended",
    PreconditionFailed: "precondition-failed",
    ContentTooLarge: "content-too-large",
    ClockInDoubt: "clock-in-doubt",
    NodeUnreachable: "node-unreachable",
    KeyReused: "idempotency-key-reused",
}


def internal_problem(*, request_id: str) -> Problem:
    """The answer to every unhandled exception; it reveals nothing of it."""
    return problem("internal", KINDS["internal"].advice, request_id=request_id)
