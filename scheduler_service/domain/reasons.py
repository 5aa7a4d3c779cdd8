"""The `reason` of a schedule: why it waits or how it ended, beyond its state, status and error."""

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[str, str]] = {
    "receiver-open": "retrying; its receiver only fails, and is probed with few calls",
    "destination-paused": "retrying; its destination is paused",
    "destination-locked": "retrying; nodes can't decrypt its destination, or do not admit its target",
    "headers-locked": "retrying; nodes have no key that decrypts its headers",
    "token-unavailable": "retrying; there is no token for its destination",
    "ordering": "retrying; an earlier call of its ordering key has not ended",
    "flow": "retrying; the limits of its flow key are reached",
    "long-calls": "retrying; as many calls with long time-outs are under way as may be",
    "late-create": "retrying; it was created when its minute was being called",
    "snoozed": "retrying; its receiver asked to be called again at that instant",
    "awaiting": "awaiting; its receiver has taken the call and says later what became of it",
    "acknowledged": "awaiting, then delivered; its receiver said, after it had taken the call, that the work is done",
    "receiver-failed": "awaiting; its receiver said, after it had taken the call, that the work has failed",
    "redelivery": "retrying; it had ended and is called again on request",
    "in-doubt": "a node stopped during the call: it may have been called",
    "refused": "failed; the call is not permitted, such as by the network policy",
    "final-status": "failed; answered with a status that the client calls final",
    "not-again": "failed; its receiver asked not to be called again",
    "at-most-once": "failed; answered without success, and no call is repeated",
    "exhausted": "failed; that was the last attempt",
    "deadline": "failed; the next attempt would come too late",
    "destination-deleted": "failed; its destination does not exist any more",
    "undecodable": "failed; what is stored of it can't be read",
    "events-gone": "failed; a notice of a subscription whose events are not kept any more",
    "internal": "failed; a fault of Minutehand's, which the log of the node tells",
    "cron-stopped": "ended, delivered or failed, with an answer by which its receiver stopped its cron",
    "late": "skipped by the late policy",
    "overdue": "skipped; on request, as it was overdue",
    "missed": "skipped; the fire was older than the cron's catch-up",
    "overlap": "skipped, as another run of the cron had not ended; or cancelled in favour of a later one",
    "cron-changed": "cancelled; its cron was changed, paused or deleted",
    "rescheduled": "cancelled; called at another instant instead, as `rescheduled_to`",
    "rescheduled-otherwise": "cancelled; another call is made instead, as `rescheduled_to`",
    "expired": "cancelled; past the client's retention, it would never have been called",
}
"""Each with what it says. The reasons that rows have and schedules do not are not here."""
