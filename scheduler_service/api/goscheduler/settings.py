"""Settings of GoScheduler's wire. The texts below the fields are shown to operators."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler_service.api.keyless import keyless_fault
from scheduler_service.domain.clients import is_client_id
from scheduler_service.domain.crons import load_zone
from scheduler_service.domain.errors import InvalidRule
from scheduler_service.domain.ids import MAX_POLLERS, ClientId

MAX_APPS: Final = 64
"""A schedule's id says nothing of its client, so a look-up may read once for each app."""
MIN_KEY: Final = 16
_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoSchedulerSettings:
    """What is served under `/goscheduler`, and to whom. Raises ValueError for values that can't work."""

    apps: tuple[str, ...] = ()
    """Apps whose callers may go on using GoScheduler's API, at `/goscheduler`; nothing else can be reached there. An
    app is the client of the same name: `test`; or, where its name can't be a client's, of another one: `Athena=athena`.
    At most 64, and a client once. None: there is nothing under `/goscheduler`."""

    key: str | None = field(default=None, repr=False)
    """Bearer key that callers must send: at least 16 printable ASCII characters without spaces. None: callers need
    none, as with GoScheduler. Then everybody who reaches the API's port may create, read and cancel schedules of all
    `apps`, register, deactivate and activate them."""

    open_to_network: bool = False
    """Take callers without a key although the API listens on more than this machine. Without it, such a configuration
    is refused."""

    timezone: str = "UTC"
    """IANA name of the zone in which crons are read: that of the machines on which GoScheduler ran."""

    query_timezone: str = "Asia/Kolkata"
    """IANA name of the zone of `start_time` and `end_time` in queries. GoScheduler knows no other than the default."""

    default_partitions: int = 5
    """Partitions, which are pollers, of an app that is registered without a number of them."""

    max_partitions: int = 64
    """Most partitions with which an app may be registered."""

    def __post_init__(self) -> None:
        clients: set[str] = set()
        names: set[str] = set()
        if len(self.apps) > MAX_APPS:
            raise ValueError(f"apps: may name at most {MAX_APPS}")
        for entry in self.apps:
            name, client_id = _named(entry)
            if _APP_ID.fullmatch(name) is None or is_client_id(client_id) is None:
                raise ValueError(
                    f"apps: {entry!r} is no client's id, nor an app's name with one, such as Athena=athena"
                )
            if name in names or client_id in clients:
                raise ValueError(f"apps: {entry!r} names an app or a client that another entry names too")
            names.add(name)
            clients.add(client_id)
        key = self.key
        if key is not None and (len(key) < MIN_KEY or not key.isascii() or not key.isprintable() or " " in key):
            raise ValueError(
                f"key: use at least {MIN_KEY} printable ASCII characters without spaces, "
                "such as the output of: openssl rand -hex 24"
            )
        for name in ("timezone", "query_timezone"):
            try:
                load_zone(getattr(self, name))
            except InvalidRule as error:
                raise ValueError(f"{name}: {error.reason}") from None
        if not 1 <= self.default_partitions <= self.max_partitions <= MAX_POLLERS:
            raise ValueError(f"default_partitions and max_partitions: must rise, from 1 to {MAX_POLLERS}")

    @property
    def on(self) -> bool:
        """Whether anything is served."""
        return bool(self.apps)

    def clients(self) -> Mapping[str, ClientId]:
        """The client of each app, by the app's name."""
        return {name: ClientId(client_id) for name, client_id in map(_named, self.apps)}

    def fault_on(self, host: str) -> str | None:
        """Why an API that listens on `host` must not serve this; None: it may."""
        if not self.on or self.key is not None or self.open_to_network:
            return None
        return keyless_fault(host, instead="set key")


def _named(entry: str) -> tuple[str, str]:
    name, _, client_id = entry.partition("=")
    return name, client_id or name
