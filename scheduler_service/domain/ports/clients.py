"""Stores of clients, their keys and their secrets, and what encrypts the secrets."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from membership.conditional import Answer
from scheduler_service.domain.clients import ApiKey, Client, SigningSecret
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.subscriptions import StoredSubscription


class CatalogPart(NamedTuple):
    """Some of the clients, deleted ones included, with their signing secrets, destinations and subscriptions. `last`:
    the last client of this part, behind which the next part begins; None: there are no more."""

    clients: Sequence[Client]
    secrets: Mapping[ClientId, Sequence[SigningSecret]]
    destinations: Mapping[ClientId, Sequence[StoredDestination]]
    subscriptions: Mapping[ClientId, Sequence[StoredSubscription]]
    last: ClientId | None


class ClientStore(Protocol):
    """Clients, keys, signing secrets, the overdue rate of all clients together, and the catalog revision, which changes
    with each of them."""

    async def read_client(self, client_id: ClientId) -> Client | None: ...

    async def list_clients(self) -> Sequence[Client]:
        """All clients, by client_id. Bounded by the number of clients, which a node holds in memory anyway."""

    async def read_part(self, after: ClientId | None, *, limit: int) -> CatalogPart:
        """The clients that follow `after` (None: from the beginning) in the store's own order, up to `limit`. A client
        that can't be decoded is left out."""

    async def create_client(self, client: Client) -> Answer[Client | None]:
        """Insert if it does not exist. Bumps the catalog revision after it was applied."""

    async def update_client(self, *, expected_revision: int, client: Client) -> Answer[Client | None]:
        """Replace if the stored revision is as expected. Bumps the catalog revision after it was applied."""

    async def catalog_revision(self) -> int:
        """Changes whenever a client, key, secret or destination changed: a cheap read for processes that cache them."""

    async def read_overdue_rate(self) -> float | None:
        """The cluster's overdue rate in calls a second; None: there is none."""

    async def set_overdue_rate(self, per_second: float | None) -> None:
        """Set the cluster's overdue rate; None: there is to be none. Of concurrent ones the last stays, and it may be
        repeated. Bumps the catalog revision after it was stored."""

    async def announce(self) -> None:
        """Change the revision for an earlier change whose writer may have died before it did so."""

    async def insert_key(self, key: ApiKey) -> None: ...

    async def read_key(self, key_id: str) -> ApiKey | None: ...

    async def list_keys(self, client_id: ClientId) -> Sequence[ApiKey]:
        """Keys of one client, revoked ones included, oldest first."""

    async def list_admin_keys(self) -> Sequence[ApiKey]:
        """Keys of all administrators, revoked ones included, oldest first."""

    async def revoke_key(self, key_id: str, *, revoked_at: int) -> None: ...

    async def delete_key(self, key: ApiKey) -> None:
        """Forget a key that ended long ago. The revision does not change: no cache serves it."""

    async def note_key_use(self, key_id: str, *, used_at: int) -> None:
        """Record when a key was last used. May be repeated. The revision does not change: no cache needs it."""

    async def insert_secret(self, secret: SigningSecret) -> None: ...

    async def list_secrets(self, client_id: ClientId) -> Sequence[SigningSecret]:
        """Active and expired ones, oldest first."""

    async def delete_secret(self, client_id: ClientId, secret_id: str) -> None: ...

    async def reseal_secret(self, secret: SigningSecret, *, stored: bytes) -> Answer[None]:
        """Replace the stored bytes and their key id if the bytes are `stored`: a secret deleted meanwhile stays
        deleted. The revision does not change, because the plain secret does not."""


class SecretEncryption(Protocol):
    """Encrypts signing secrets, callbacks' headers and destinations. Stores keep what it seals and never decrypt."""

    @property
    def primary(self) -> str | None:
        """The key that `seal` uses; None: it leaves secrets in the clear."""

    @property
    def encrypts_headers(self) -> bool:
        """Whether `seal_headers` encrypts, unless older programs run; else it leaves headers in the clear."""

    @property
    def generation(self) -> int:
        """Changes when the keys did: what could not be opened before may open now."""

    def seal(self, secret: SigningSecret) -> SigningSecret:
        """A secret in the clear as it is to be stored."""

    def open(self, secret: SigningSecret) -> SigningSecret:
        """A stored secret in the clear; one stored without a key is so already. Raises SecretLocked."""

    def seal_headers(self, client_id: ClientId, headers: str) -> str:
        """`Definition.headers` in the clear as it is to be stored. Deterministic: equal headers of one client are
        stored alike, so that inserts stay repeatable."""

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        """Stored headers in the clear. Raises SecretLocked."""

    def seal_destination(self, client_id: ClientId, name: str, document: str) -> str:
        """A destination's document in the clear as it is to be stored, under this name. Deterministic, and encrypted
        wherever `primary` is there: no older program reads destinations."""

    def open_destination(self, client_id: ClientId, name: str, document: str) -> str:
        """A stored document in the clear. Raises SecretLocked."""
