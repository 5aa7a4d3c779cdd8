"""The clients that a job is about."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import functions as F

from scheduler_service.domain.clients import ClientSettings, ClientState
from spark.io.members import Pollers
from spark.jobs.job import Context, JobRefused

_DEFAULTS = ClientSettings()


class _Settings(msgspec.Struct):
    """The settings that jobs use; fields that a newer version adds are ignored."""

    retention_days: int = _DEFAULTS.retention_days


_settings = msgspec.json.Decoder(_Settings).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownClient:
    """`pollers`: those that may have schedules. `created`: Unix seconds."""

    client_id: str
    poller_quota: int
    pollers: int
    state: ClientState
    retention_days: int
    created: int


def known_clients(context: Context, named: Sequence[str]) -> list[KnownClient]:
    """Those named, or all but Minutehand's own, ordered by name. Raises JobRefused."""
    columns = ("client_id", "poller_quota", "poller_ceiling", "state", "settings")
    rows = context.tables.clients().select(*columns, F.unix_seconds("created_at").alias("created")).collect()
    known = {
        row.client_id: KnownClient(
            client_id=row.client_id,
            poller_quota=row.poller_quota,
            pollers=row.poller_ceiling,
            state=ClientState(row.state),
            retention_days=_settings(row.settings or "{}").retention_days,
            created=row.created,
        )
        for row in rows
    }
    missing = sorted(set(named) - known.keys())
    if missing:
        raise JobRefused(f"there is no client {', '.join(map(repr, missing))}")
    chosen = set(named) or {name for name in known if not name.startswith("$")}
    return [known[name] for name in sorted(chosen)]


def settled_before(client: KnownClient, known: Pollers | None) -> int:
    """The instant before which everything is settled in all of the client's pollers; Unix seconds. 0 where a poller is
    unknown."""
    return known.settled_before if known is not None and known.known >= client.pollers else 0
