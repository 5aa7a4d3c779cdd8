"""The complete headers of a callback: the user's first, then ours, which can't be overridden."""

from collections.abc import Sequence

from scheduler_service.domain.callbacks import is_ours
from scheduler_service.domain.instants import format_instant


def callback_headers(
    user: Sequence[tuple[str, str]],
    *,
    timestamp: int,
    signature: str,
    client_id: str,
    schedule_id: str,
    cron_id: str | None,
    due_ms: int,
    attempt: int,
    fence: int,
    in_doubt: bool,
    user_agent: str,
) -> tuple[tuple[str, str], ...]:
    """All headers of one attempt. An empty `signature` (a client without secrets) leaves that header out.

    `due_ms` is the nominal instant (Unix milliseconds), `attempt` counts from 1, `fence` is the lease epoch under which
    the call is made: a receiver may refuse a caller whose fence is lower than one it has seen for the same schedule's
    lane. `in_doubt`: an earlier owner may have made this very call.
    """
    ours = [
        ("webhook-id", schedule_id),
        ("webhook-timestamp", str(timestamp)),
        ("Minutehand-Client", client_id),
        ("Minutehand-Schedule-Id", schedule_id),
        ("Minutehand-Due", format_instant(due_ms)),
        ("Minutehand-Attempt", str(attempt)),
        ("Minutehand-Fence", str(fence)),
        ("User-Agent", user_agent),
    ]
    if signature:
        ours.append(("webhook-signature", signature))
    if cron_id is not None:
        ours.append(("Minutehand-Cron-Id", cron_id))
    if in_doubt:
        ours.append(("Minutehand-Redelivery", "true"))
    return (*[header for header in user if not is_ours(header[0])], *ours)


def user_agent(version: str) -> str:
    return f"Minutehand/{version}"
