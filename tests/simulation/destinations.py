"""Destinations of simulated clients: what they said when, and which calls that allows."""

from dataclasses import dataclass
from itertools import pairwise
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


class Said(NamedTuple):
    """What a destination says from `at` on, Unix milliseconds. `url` None: there is no such destination. `credential`:
    the bearer token that it gives in a header."""

    at: float
    url: str | None
    credential: str | None
    paused: bool


class DestinationWatch:
    """What destinations said when, and which calls that allows."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], list[Said]] = {}

    def history(self, client: str, name: str) -> list[Said]:
        """From the beginning of time, so there is always one."""
        return self._said.setdefault((client, name), [Said(0.0, None, None, paused=False)])

    def says(self, client: str, name: str, stored: StoredDestination | None, *, at: float) -> Said:
        """It was changed; None: deleted."""
        said = Said(at, None, None, paused=False)
        if stored is not None:
            document = msgspec.json.decode(stored.document, type=Destination)
            given = dict(document.headers).get("Authorization", "").partition(" ")[2] or None
            said = Said(at, document.url, given, paused=stored.paused_at is not None)
        self.history(client, name).append(said)
        return said

    def known_by(self, changed: Said, call: Call) -> float:
        """When the node of this call must have heard of the change."""
        return changed.at + HEARD_MS

    def wrong(self, name: str, call: Call) -> str | None:
        """What is wrong with a call of a schedule that names this destination."""
        said = self.history(call.client_id, name)
        heard = [each for each, after in pairwise(said) if call.at_ms <= self.known_by(after, call)] + said[-1:]
        if any(_fits(each, call) for each in heard):
            return None
        return f"{call.schedule_id} was called at {call.url} ({call.token}), which {name} did not say: {heard}"


def _fits(said: Said, call: Call) -> bool:
    return (
        said.url is not None
        and call.url.startswith(said.url)
        and said.credential in (None, call.token)
        and not said.paused
    )


@dataclass
class Destinations:
    """The destinations of a world. Changes take effect at once."""

    world: "World"

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, str], StoredDestination] = {}

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

    async def _pause(self, name: str, client: str, paused_at: UnixMillis | None) -> None:
        known = self._known[client, name]
        changed = msgspec.structs.replace(known, paused_at=paused_at, revision=known.revision + 1)
        await self._write(changed, known.revision)

    async def delete(self, name: str, *, client: str = "shop") -> None:
        known = self._known.pop((client, name))
        store = self.world.truth.destinations
        answer = await store.delete_destination(known.client_id, name, expected_revision=known.revision)
        assert isinstance(answer, Applied)
        self._note(client, name, None)

    async def _write(self, destination: StoredDestination, expected: int | None) -> None:
        answer = await self.world.truth.destinations.put_destination(destination, expected_revision=expected)
        assert isinstance(answer, Applied)
        client, name = str(destination.client_id), destination.name
        self._known[client, name] = destination
        self._note(client, name, destination)

    def _note(self, client: str, name: str, stored: StoredDestination | None) -> None:
        said = self.world.destination_watch.says(client, name, stored, at=self.world.now_ms())
        self.world.note("client", f"destination {name} of {client}: {said.url}{' paused' if said.paused else ''}")
