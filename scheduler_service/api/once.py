"""The query parameter `once`, a create's token, and the header from which callers make the next token.

`domain.once` says what a token does. An accepted create is answered with `Minutehand-Once: NOW.POLLERS`, and so is a
token that can't be used. That refusal also tells what a caller needs to judge late repeats by,
`Minutehand-Client-Settings: accept_past_seconds=60; retention_days=7`. It costs one unit of the caller's request
budget, because it comes before the rate of creates is taken.
"""

from collections.abc import Mapping
from typing import Final

from scheduler_service.api.http.query import Parameter
from scheduler_service.api.http.route import IDEMPOTENCY_KEY, RequestContext
from scheduler_service.api.problems import Refusal
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.once import ONCE_PATTERN, Once, OnceIds, age_fault, parse_once

ONCE: Final = Parameter(
    name="once",
    sentence="A token, `ASKED_AT.POLLERS.POLLER.NONCE`: repeating the request with the same token and body within 15 "
    "minutes writes the same schedules with the same ids, so a create that got no answer can be repeated. Nothing "
    "is stored for it, and each repeat counts as a create. A repeat is answered like the first request, whatever "
    "became of the schedules since; another body makes other schedules. ASKED_AT: Unix milliseconds, at most 15 "
    "minutes ago; dues, horizon and `created_at` are judged as of it, and what was due since is called at once. "
    "POLLERS: not above the client's present quota. Both are from the header Minutehand-Once of an earlier answer, "
    "with the time since then added to ASKED_AT. POLLER: 0 to POLLERS - 1, in turns. NONCE: 16 to 64 random "
    "letters, digits, `-` and `_`. Can't be combined with an Idempotency-Key, which costs more and detects another "
    "body.",
    schema={"type": "string", "pattern": ONCE_PATTERN},
    read=parse_once,
)
ONCE_HEADER: Final = "Minutehand-Once"
SETTINGS_HEADER: Final = "Minutehand-Client-Settings"
ONCE_HEADERS: Final[Mapping[str, str]] = {
    ONCE_HEADER: "`NOW.POLLERS`: the API's clock in Unix milliseconds and the client's quota, for the token of the "
    "next create (`once`)."
}
ONCE_REFUSED: Final = "once-refused"
_ONLY_ONCE: Final = f"{ONCE.name}="


async def once_of(context: RequestContext) -> Once | None:
    """The token of a create, if it has one. Raises Invalid for a malformed token, Refusal (once-refused) for one that
    can't be used, Refusal (too-many-requests), and StoreUnavailable."""
    if not context.request.rel_url.raw_query_string:
        return None
    faults: list[FieldError] = []
    once = ONCE.of(context.request.query, faults)
    if once is not None and IDEMPOTENCY_KEY in context.request.headers:
        faults.append(FieldError("/once", "is given together with an Idempotency-Key; give only one of them"))
    if faults:
        raise Invalid(faults)
    return None if once is None else await _judged(context, once)


async def _judged(context: RequestContext, once: Once) -> Once:
    services, client = context.services, context.client
    fault = age_fault(once, now=services.clock.wall_ms())
    if fault is None and once.pollers <= client.poller_quota:
        return once
    assert context.principal is not None
    # Before the read of the catalog below: refusals must not be free reads of storage.
    services.request_budget.take(context.principal, 1)
    if fault is None:
        # Another process may have announced a raised quota that this one has not read yet.
        client = await services.catalog.reread(client.client_id)
        if once.pollers <= client.poller_quota:
            return once
        fault = f"the token names {once.pollers} pollers, more than the quota of this client, {client.poller_quota}"
    now = services.clock.wall_ms()
    raise Refusal(ONCE_REFUSED, fault, headers={**told_at(client, now=now), **_settings_of(client)})


def ids_of(context: RequestContext, once: Once | None, body: bytes) -> OnceIds | None:
    """The ids of the rows of this create. `body`: as it was sent."""
    return None if once is None else OnceIds(context.client.client_id, once, body)


def told(context: RequestContext) -> dict[str, str]:
    """The header for the answer. Call it before awaiting anything: callers derive the clock's offset from its time."""
    return told_at(context.client, now=context.services.clock.wall_ms())


def told_at(client: Client, *, now: int) -> dict[str, str]:
    return {ONCE_HEADER: f"{now}.{client.poller_quota}"}


def _settings_of(client: Client) -> dict[str, str]:
    settings = client.settings
    told = f"accept_past_seconds={settings.accept_past_seconds:.12g}; retention_days={settings.retention_days}"
    return {SETTINGS_HEADER: told}


def plain_once(query: str, client: Client, *, now: int) -> Once | None:
    """The token of a raw query string that holds nothing else, if it is valid by what this process knows."""
    if not query.startswith(_ONLY_ONCE):
        return None
    try:
        once = parse_once(query.removeprefix(_ONLY_ONCE))
    except ValueError:
        return None
    return once if once.pollers <= client.poller_quota and age_fault(once, now=now) is None else None
