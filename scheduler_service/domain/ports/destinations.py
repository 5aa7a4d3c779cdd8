"""The store of destinations."""

from collections.abc import Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId


class DestinationStore(Protocol):
    """Destinations as they are stored: sealed. Nodes read them by `ClientStore.read_part`, when the catalog revision
    says that something changed."""

    async def read_destination(self, client_id: ClientId, name: str) -> StoredDestination | None: ...

    async def list_destinations(self, client_id: ClientId) -> Sequence[StoredDestination]:
        """By name. Bounded by `MAX_DESTINATIONS`, and by how many requests may exceed that at the same moment."""

    async def list_names(self, client_id: ClientId) -> Sequence[str]:
        """The same without the documents."""

    async def put_destination(
        self, destination: StoredDestination, *, expected_revision: int | None
    ) -> Answer[StoredDestination | None]:
        """Replace if the stored revision is as expected; None: insert if it does not exist. Bumps the catalog revision
        after it was applied."""

    async def delete_destination(
        self, client_id: ClientId, name: str, *, expected_revision: int
    ) -> Answer[StoredDestination | None]:
        """Delete if the stored revision is as expected. Rejected(None): there is none. Bumps the catalog revision after
        it was applied."""

    async def reseal_destination(self, destination: StoredDestination) -> Answer[None]:
        """Replace the document by the same one under another key, if the revision is still that of `destination`. The
        catalog revision does not change, because the document in the clear does not."""
