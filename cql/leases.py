"""Leases: the `pollers` table. Conditional writes only, creation included."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from cql.connection import Connection, Item, without_rows
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import LeaseChange, LeaseRow

_POLLERS_PER_BATCH = 100
_TRIES = 5


class CqlLeaseStore:
    """`membership.ports.LeaseStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create_pollers(self, pollers: Sequence[PollerKey], *, watermark: int) -> None:
        by_client: dict[str, list[int]] = defaultdict(list)
        for poller in pollers:
            by_client[poller.client_id].append(poller.poller_id)
        for client_id, poller_ids in by_client.items():
            await self._create(client_id, sorted(set(poller_ids)), watermark)

    async def read_leases(self, client_id: str) -> Sequence[LeaseRow]:
        rows = await self._connection.select("pollers.list", (client_id,))
        return [_lease(client_id, values) for values in rows]

    async def read_lease(self, poller: PollerKey) -> LeaseRow | None:
        for values in await self._connection.select("pollers.read", tuple(poller), serial=True):
            return _lease(poller.client_id, values)
        return None

    async def write_lease(self, *, expected: LeaseRow, new: LeaseRow) -> Answer[LeaseRow | None]:
        if expected.poller != new.poller:
            raise ValueError(f"a lease of {expected.poller} can't become one of {new.poller}")
        match await self._connection.conditional([_change(expected, new)]):
            case Rejected(rows):
                return Rejected(_met(new.poller, rows[0]) if rows else None)
            case Applied() | Unknown() as answer:
                return answer

    async def write_leases(self, changes: Sequence[LeaseChange]) -> Answer[None]:
        return without_rows(await self._connection.conditional([_change(expected, new) for expected, new in changes]))

    async def _create(self, client_id: str, poller_ids: Sequence[int], watermark: int) -> None:
        """Create the missing ones. A batch is all or nothing: if one of its pollers appeared meanwhile, read again."""
        reason = ""
        for _ in range(_TRIES):
            existing = {lease.poller.poller_id for lease in await self.read_leases(client_id)}
            missing = [poller_id for poller_id in poller_ids if poller_id not in existing]
            for start in range(0, len(missing), _POLLERS_PER_BATCH):
                items: list[Item] = [
                    ("pollers.create", (client_id, poller_id, watermark))
                    for poller_id in missing[start : start + _POLLERS_PER_BATCH]
                ]
                match await self._connection.conditional(items):
                    case Applied():
                        continue
                    case Rejected():
                        reason = "another process creates them too"
                    case Unknown(why):
                        reason = why
                break
            else:
                return
        raise StoreUnavailable(f"The pollers of client {client_id} could not be created ({reason}); try again.")


def _change(expected: LeaseRow, new: LeaseRow) -> Item:
    return "pollers.write", (*_columns(new), *new.poller, *_columns(expected))


def _columns(lease: LeaseRow) -> tuple[str | None, int | None, int, int, bool]:
    node_id, incarnation = lease.owner or (None, None)
    return node_id, incarnation, lease.epoch, lease.watermark, lease.lagging


def _met(poller: PollerKey, row: Any) -> LeaseRow:
    return _lease(
        poller.client_id,
        (
            poller.poller_id,
            row["owner_node"],
            row["owner_incarnation"],
            row["epoch"],
            row["watermark"],
            row["lagging"],
        ),
    )


def _lease(client_id: str, values: tuple[Any, ...]) -> LeaseRow:
    poller_id, node_id, incarnation, epoch, watermark, lagging = values
    return LeaseRow(
        poller=PollerKey(client_id, poller_id),
        owner=None if node_id is None else NodeIncarnation(NodeId(node_id), IncarnationNumber(incarnation)),
        epoch=epoch,
        watermark=watermark,
        lagging=lagging,
    )
