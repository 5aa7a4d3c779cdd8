"""Settings of BigBen's API. The texts below the fields are shown to operators."""

import re
from dataclasses import dataclass
from typing import Final

from scheduler_service.api.keyless import keyless_fault
from scheduler_service.domain.clients import CLIENT_ID_PATTERN, Scope, is_client_id

_CLUSTER: Final = re.compile(r"[^\s,=]+:[0-9]{1,5}=[^\s,=]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BigBenSettings:
    """What is served under `/bigben`, and to whom. Raises ValueError for values that can't work."""

    client: str | None = None
    """Client whose schedules and destinations programs written for BigBen use, at `/bigben`; nothing else can be
    reached there. All that they register are names within it. None: there is nothing under `/bigben`."""

    keyless: str | None = None
    """What requests without a key may do there, as BigBen's programs send them: read, write, or manage, which says
    where events go, too. Everybody who reaches the API's port may then do that for `client`, except web pages. None:
    every request needs a key of `client`."""

    open_to_network: bool = False
    """Take requests without a key although the API listens on more than this machine. Without it, such a configuration
    is refused."""

    clusters: tuple[str, ...] = ()
    """Brokers that may be registered for events that go to Kafka, each with the cluster that it belongs to in the file
    of `targets.file`: `kafka-1.internal:9092=main`. Registrations that name other brokers are refused. None: all are,
    so events can go to URLs only."""

    def __post_init__(self) -> None:
        if self.client is not None and is_client_id(self.client) is None:
            raise ValueError(f"client: {self.client!r} is no client's id, which matches {CLIENT_ID_PATTERN}")
        if self.keyless is not None and self.keyless not in list(Scope):
            raise ValueError(f"keyless: must be one of {', '.join(Scope)}")
        if self.keyless is not None and self.client is None:
            raise ValueError("keyless: needs client, as which such requests act")
        for entry in self.clusters:
            if _CLUSTER.fullmatch(entry) is None:
                raise ValueError(f"clusters: {entry!r} is no broker with its cluster, such as kafka-1:9092=main")

    def fault_on(self, host: str) -> str | None:
        """Why an API that listens on `host` must not serve this; None: it may."""
        if self.keyless is None or self.open_to_network:
            return None
        return keyless_fault(host, instead="leave keyless out")

    def cluster_of(self, brokers: str) -> str | None:
        """The cluster that all these brokers belong to, as host:port separated by commas; None: there is none."""
        known = dict(entry.split("=", 1) for entry in self.clusters)
        named = {known.get(broker.strip()) for broker in brokers.split(",")}
        return named.pop() if len(named) == 1 else None

    def brokers_of(self, cluster: str) -> str:
        """The brokers of a cluster, as they are registered."""
        return ",".join(
            broker for broker, _, name in (entry.partition("=") for entry in self.clusters) if name == cluster
        )
