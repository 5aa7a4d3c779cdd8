"""The store of subscriptions."""

from collections.abc import Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.subscriptions import StoredSubscription


class SubscriptionStore(Protocol):
    """Nodes read subscriptions by `ClientStore.read_part`, when the catalog revision says that something changed."""

    async def read_subscription(self, client_id: ClientId, name: str) -> StoredSubscription | None: ...

    async def list_subscriptions(self, client_id: ClientId) -> Sequence[StoredSubscription]:
        """By name. Bounded by `MAX_SUBSCRIPTIONS`, and by how many requests may exceed that at the same moment."""

    async def put_subscription(
        self, subscription: StoredSubscription, *, expected_revision: int | None
    ) -> Answer[StoredSubscription | None]:
        """Replace if the stored revision is as expected; None: insert if it does not exist. Bumps the catalog revision
        after it was applied."""

    async def delete_subscription(
        self, client_id: ClientId, name: str, *, expected_revision: int
    ) -> Answer[StoredSubscription | None]:
        """Delete if the stored revision is as expected. Rejected(None): there is none. Bumps the catalog revision after
        it was applied."""
