"""Destinations of simulated clients: what they said when, and which calls that allows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from membership.conditional import Applied
from scheduler_service.domain.destinations import Destination, StoredDestination, encode_destination
from scheduler_service.domain.ids import ClientId, UnixMillis
from tests.simulation.receivers import Call

if TYPE_CHECKING:
    from tests.simulation.world import World

HEARD_MS: Final = 5_000
"""How long after a change a node may still call as before."""


class _Said(NamedTuple):
    """From `at` on. `url` None: there was no such destination."""

    at: float
    url: str | None
    paused: bool


@dataclass
class Destinations:
    """The destinations of a world. Changes take effect at once; nodes hear of them within `heard_ms`."""

    world: "World"
    heard_ms: int = HEARD_MS

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, str], StoredDestination] = {}
        self._said: dict[tuple[str, str], list[_Said]] = {}

    def names(self, client: str) -> list[str]:
        return [name for owner, name in self._known if owner == client]

    def was_deleted(self, client: str, name: str) -> bool:
        """Whether it was missing at any time since it was first made."""
        return any(said.url is None for said in self._said.get((client, name), ())[1:])

    async def put(self, name: str, *, client: str = "shop", url: str, **document: Any) -> None:
        known = self._known.get((client, name))
        text = encode_destination(Destination(url=url, **document))
        if known is None:
            made = StoredDestination(
                client_id=ClientId(client),
                name=name,
                document=text,
                revision=1,
                created_at=UnixMillis(self.world.now_ms()),
                changed_at=UnixMillis(self.world.now_ms()),
            )
            await self._write(made, expected=None)
        else:
            await self._write(
                msgspec.structs.replace(known, document=text, revision=known.revision + 1), known.revision
            )

    async def pause(self, name: str, *, client: str = "shop") -> None:
        await self._pause(name, client, UnixMillis(self.world.now_ms()))

    async def resume(self, name: str, *, client: str = "shop") -> None:
        await self._pause(name, client, None)

    async def resume_all(self) -> None:
        for client, name in self._known:
            await self.resume(name, client=client)

    async def _pause(self, name: str, client: str, paused_at: UnixMillis | None) -> None:
        known = self._known[client, name]
        changed = msgspec.structs.replace(known, paused_at=paused_at, revision=known.revision + 1)
        await self._write(changed, known.revision)

    async def delete(self, name: str, *, client: str = "shop") -> None:
        known = self._known.pop((client, name))
        store = self.world.truth.destinations
        answer = await store.delete_destination(known.client_id, name, expected_revision=known.revision)
        assert isinstance(answer, Applied)
        self._note(client, name, None, paused=False)

    async def _write(self, destination: StoredDestination, expected: int | None) -> None:
        answer = await self.world.truth.destinations.put_destination(destination, expected_revision=expected)
        assert isinstance(answer, Applied)
        client, name = str(destination.client_id), destination.name
        self._known[client, name] = destination
        url = msgspec.json.decode(destination.document, type=Destination).url
        self._note(client, name, url, paused=destination.paused_at is not None)

    def _note(self, client: str, name: str, url: str | None, *, paused: bool) -> None:
        self.world.note("client", f"destination {name} of {client}: {url}{' paused' if paused else ''}")
        said = self._said.setdefault((client, name), [_Said(0.0, None, paused=False)])
        said.append(_Said(self.world.now_ms(), url, paused))

    def wrong(self, name: str, call: Call) -> str | None:
        """What is wrong with a call of a schedule that names this destination."""
        said = self._said.get((call.client_id, name), [])
        since = call.at_ms - self.heard_ms
        before = [each for each in said if each.at <= since][-1:]
        heard = before + [each for each in said if each.at > since]

        def fits(each: _Said) -> bool:
            return each.url is not None and call.url.startswith(each.url) and not each.paused

        if any(map(fits, heard)):
            return None
        return f"{call.schedule_id} was called at {call.url}, which {name} did not say: {heard}"
