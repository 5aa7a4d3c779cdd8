"""Port: the pollers that a node holds, as its parts ask for them by client."""

from collections.abc import Collection, Mapping
from typing import Protocol

from scheduler_service.domain.ids import ClientId, Minute, PollerId


class HeldPollers(Protocol):
    """Which pollers of a client this node holds, their positions, and their share of the client's quota."""

    def positions(self, client_id: ClientId) -> Mapping[PollerId, Minute]:
        """Every held poller, with its oldest unsettled minute."""

    def kept(self, client_id: ClientId) -> Collection[PollerId]:
        """Held pollers that are not about to be handed over."""

    def share(self, client_id: ClientId) -> float:
        """The part of the quota's pollers that are held, above 0 and at most 1; 1 while that is not known."""

    def share_of_all(self) -> float:
        """The part of the pollers of all clients' quotas that are held, without those of built-in clients: at most 1,
        and over all nodes too, but for nodes that hold only pollers beyond quotas that were lowered. 0: none is."""

    def wake(self, client_id: ClientId) -> None:
        """Rows of this client that were not claimed for lack of room, of the client or their receiver, may be
        claimed now."""
