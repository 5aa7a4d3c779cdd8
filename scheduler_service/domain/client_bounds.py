"""The operator's bounds on clients' settings, and how settings beyond them are treated. Pure.

    PUT       a value beyond a bound is refused, with every fault, unless it is the default
    in force  the smaller of setting and bound; so a default above a bound becomes the bound, and a lowered bound takes
              effect at once, also on stored settings
    schedule  its own retry and time-out are checked against the bounds when it is created, and kept

Built-in clients are not bound. No bound can be above what `clients.ClientSettings` admits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec

from scheduler_service.domain.clients import Client, ClientSettings, RetrySettings
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.options import RetryOverride

_NUMBERS: Final = (
    "timeout_seconds",
    "max_in_flight",
    "horizon_days",
    "accept_past_seconds",
    "retention_days",
    "payload_bytes",
    "header_bytes",
    "create_rate_per_second",
    "max_crons",
)
_RETRY: Final = ("max_attempts", "base_seconds", "cap_seconds", "deadline_seconds")
_DEFAULTS: Final = ClientSettings()
_LEAST: Final = {
    "timeout_seconds": 0.1,
    "retry_base_seconds": 0.1,
    "retry_cap_seconds": 0.1,
    "create_rate_per_second": 0.1,
    "hosts": 0,
    "accept_past_seconds": 0,
}
_MOST: Final = {"timeout_seconds": 600.0}
"""Where a bound may be raised above its default."""
_READS: Final = ("LOCAL_QUORUM", "LOCAL_ONE")
_WRITES: Final = ("LOCAL_QUORUM", "EACH_QUORUM")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounds:
    """Upper bounds of clients' settings; lower is stricter. A bound also applies to settings that are stored already.
    APIs and nodes must have the same. Raises ValueError for values that can't be a bound."""

    retry_max_attempts: int = 100
    """Most attempts of one schedule."""

    retry_base_seconds: float = 3600.0
    """Longest delay before the first retry, in seconds."""

    retry_cap_seconds: float = 86_400.0
    """Longest delay before any retry, in seconds."""

    retry_deadline_seconds: float = 604_800.0
    """Most seconds from a schedule's due to its last retry."""

    timeout_seconds: float = 60.0
    """Longest time-out of one attempt, in seconds; it may be raised up to 600, once all programs know this. A receiver
    that does not answer takes up one of its client's `max_in_flight` for this long. Attempts with time-outs above
    `receivers.long_call_seconds` share a part of the places."""

    max_in_flight: int = 10_000
    """Most concurrent attempts of one client, over all nodes."""

    hosts: int = 100
    """Most hosts for which a client may set limits."""

    horizon_days: int = 3650
    """Most days ahead that a schedule may be due. Schedules are kept until then."""

    accept_past_seconds: float = 604_800.0
    """Most seconds ago that a new schedule may have been due. Such calls are all due at once."""

    retention_days: int = 90
    """Most days for which schedules that have ended are kept. They are most of what storage holds."""

    payload_bytes: int = 1_048_576
    """Most bytes of the body of one callback. The owner of a minute holds the bodies that are due next in memory."""

    header_bytes: int = 16_384
    """Most bytes of the names and values of one callback's headers."""

    create_rate_per_second: float = 1_000_000.0
    """Most creates a second, with a burst of ten seconds' worth. Each API process counts for itself, so a client gets
    at most this times the number of API processes (hosts x `--processes`)."""

    max_crons: int = 1_000_000
    """Most crons of one client. The search for overdue crons reads each once a minute, and a cron that fires once a
    minute costs 0.4 % of one poller's guaranteed rate."""

    read_consistency: str = "LOCAL_ONE"
    """LOCAL_QUORUM: clients may not choose LOCAL_ONE for reading their schedules."""

    write_consistency: str = "EACH_QUORUM"
    """LOCAL_QUORUM: clients may not choose EACH_QUORUM for their creates, which are refused while a data centre does
    not answer."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value, most = getattr(self, one.name), _MOST.get(one.name, one.default)
            if isinstance(value, str):
                known = _READS if one.name == "read_consistency" else _WRITES
                if value not in known:
                    raise ValueError(f"{one.name}: must be one of {', '.join(known)}")
            elif not (least := _LEAST.get(one.name, 1)) <= value <= most:
                raise ValueError(f"{one.name}: must be from {least} to {most}")
        if self.retry_base_seconds > self.retry_cap_seconds:
            raise ValueError("retry_base_seconds: must not be above retry_cap_seconds")

    def faults(self, settings: ClientSettings, *, at: str) -> list[FieldError]:
        """All settings beyond a bound, by JSON pointer into a request that has the settings `at` this pointer."""
        faults = [
            FieldError(
                f"{at}/{name.replace('.', '/')}", f"must be at most {bound:.12g}, by the operator's configuration"
            )
            for name, asked, default, bound in self._numbers(settings)
            if asked is not None and asked > bound and asked != default
        ]
        if len(settings.hosts) > self.hosts:
            faults.append(FieldError(f"{at}/hosts", f"may name at most {self.hosts} hosts"))
        return faults + [
            FieldError(f"{at}/{name}", "must be LOCAL_QUORUM, by the operator's configuration")
            for name in ("read_consistency", "write_consistency")
            if getattr(settings, name) != "LOCAL_QUORUM" and getattr(self, name) == "LOCAL_QUORUM"
        ]

    def faults_of_schedule(self, retry: RetryOverride | None, timeout_seconds: float | None) -> list[FieldError]:
        """The same for the overrides of a schedule or a cron."""
        asked = [("/timeout_seconds", timeout_seconds, self.timeout_seconds)]
        if retry is not None:
            asked += [(f"/retry/{name}", getattr(retry, name), getattr(self, f"retry_{name}")) for name in _RETRY]
        return [
            FieldError(pointer, f"must be at most {bound:.12g}, by the operator's configuration")
            for pointer, value, bound in asked
            if value is not None and value > bound
        ]

    def effective(self, client: Client) -> ClientSettings:
        """The settings in force, with those that derive from the quota filled in."""
        return self.in_force(client).settings.effective(poller_quota=client.poller_quota)

    def in_force(self, client: Client) -> Client:
        """The client with its settings cut to the bounds; the same object if they were within them."""
        if client.built_in:
            return client
        settings = client.settings
        retry: dict[str, Any] = {}
        changes: dict[str, Any] = {}
        for name, value, _, bound in self._numbers(settings.effective(poller_quota=client.poller_quota)):
            if value is not None and value > bound:
                into = retry if name.startswith("retry.") else changes
                into[name.removeprefix("retry.")] = bound
        if retry:
            changes["retry"] = _without_contradiction(msgspec.structs.replace(settings.retry, **retry))
        for name in ("read_consistency", "write_consistency"):
            if getattr(self, name) == "LOCAL_QUORUM" and getattr(settings, name) != "LOCAL_QUORUM":
                changes[name] = "LOCAL_QUORUM"
        if not changes:
            return client
        return msgspec.structs.replace(client, settings=msgspec.structs.replace(settings, **changes))

    def _numbers(self, settings: ClientSettings) -> Iterator[tuple[str, float | None, float | None, float]]:
        """Name, value, default and bound."""
        for name in _RETRY:
            value, default = getattr(settings.retry, name), getattr(_DEFAULTS.retry, name)
            yield f"retry.{name}", value, default, getattr(self, f"retry_{name}")
        for name in _NUMBERS:
            yield name, getattr(settings, name), getattr(_DEFAULTS, name), getattr(self, name)


UNBOUND: Final = ClientBounds()
"""The bounds if an operator has configured none."""


def _without_contradiction(retry: RetrySettings) -> RetrySettings:
    return msgspec.structs.replace(retry, base_seconds=min(retry.base_seconds, retry.cap_seconds))
