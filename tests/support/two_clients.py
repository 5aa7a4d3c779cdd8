"""A client that owns one of everything, and another, with a key of scope manage, that reaches for the first one's
things.

Requests are enumerated from the route table, so a new route is covered; what cannot be enumerated fails with a sentence
that says what to add here.
"""

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from hypothesis import strategies as st

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.query import CURSOR
from scheduler_service.api.http.route import Route, operation_id
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.audits import Audit, AuditFinding, new_audit_id
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import MINUTE_MS, ClientId, UnixMillis
from tests.support.api import ApiHarness, Reply, SeededRandomness, cron, schedule
from tests.support.cron_calls import expand
from tests.support.outcomes import created, gave_up

T = TypeVar("T")

CANARY = "canary-7f3a"
"""Part of every text that the owner chose itself, except ids. The thief never sends it."""
OWNER, THIEF = "shop", "thief"
UNKNOWN_ID = "01a1fe7b-0a24-8000-81b0-6435e6edef00"
WINDOW = {"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z"}
BUDGET = 1e9
"""Requests per second, so that the limit is never reached."""
_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request with the thief's key."""

    route: Route
    path: str
    query: Mapping[str, str]
    body: Any

    @property
    def text(self) -> str:
        """All that the thief knows before it sends the request."""
        return f"{self.path} {self.query} {self.body}"


@dataclass(slots=True)
class TwoClients:
    """`names`: values of the owner and of the thief for every variable part of a path. `secrets`: texts of the owner's
    that no answer to the thief may hold, unless the thief sent or stored them. `cursors`: the owner's. `stored`: what
    the thief stored of its own.
    """

    api: ApiHarness
    owners_key: str = ""
    thiefs_key: str = ""
    names: dict[str, list[str]] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    stored: str = ""

    async def settle(self) -> None:
        """Fill the store."""
        api = self.api
        await api.add_built_in_clients()
        other_keys = {
            OWNER: await api.register(OWNER, settings={"hosts": {f"{CANARY}.example": {}}}),
            THIEF: await api.register(THIEF),
        }
        self.owners_key, self.thiefs_key = await self._manager(OWNER), await self._manager(THIEF)
        owned, stolen_to = await self._things_of(OWNER, self.owners_key), await self._things_of(THIEF, self.thiefs_key)
        # The thief's own key is not among them: it stays valid.
        owned["key_id"], stolen_to["key_id"] = [[key.split("_")[1]] for key in other_keys.values()]
        self.names = {
            "client_id": [OWNER, THIEF],
            "kind": ["invalid"],
            "node_id": ["node-a"],
            **{name: [*owned[name], *stolen_to[name]] for name in owned},
        }
        randomness = SeededRandomness()
        for at in range(2):
            found = AuditFinding(kind="stranded", detail=CANARY)
            audit_id = new_audit_id(at=api.clock.now + at, randomness=randomness)
            await api.storage.audits.insert(
                Audit(client_id=ClientId(OWNER), audit_id=audit_id, window_start=UnixMillis(0),
                      window_end=UnixMillis(MINUTE_MS), shown=(found,))
            )  # fmt: skip
        self.secrets = [CANARY, self.owners_key, other_keys[OWNER], *(one for ids in owned.values() for one in ids)]
        self.cursors = [cursor for route in ROUTES for cursor in await self._cursors_of(route)]
        body = {"limit": 1, **WINDOW}
        redriven = await self._as_owner("POST", f"/v1/clients/{OWNER}/dead-letters:redeliver", json=body)
        self.cursors.append(redriven.json["next_cursor"])
        seen_to = await self._as_owner("POST", f"/v1/clients/{OWNER}/dead-letters:acknowledge", json=body)
        assert seen_to.json["acknowledged"] == 1

    async def _manager(self, client_id: str) -> str:
        """A key of scope manage."""
        return str((await self.api.send("POST", f"/v1/clients/{client_id}/keys", json={"scope": "manage"})).json["key"])

    async def _things_of(self, client_id: str, key: str) -> dict[str, list[str]]:
        api, base = self.api, f"/v1/clients/{client_id}"
        mine = CANARY if client_id == OWNER else "own"
        callback = {
            "url": f"https://{mine}.example/hook?{mine}",
            "headers": {"x-one": mine, "authorization": mine},
            "body": mine,
        }
        schedules = [
            (await api.send("POST", f"{base}/schedules", key=key, json=schedule(callback=callback, label=mine))).json
            for _ in range(3)
        ]
        keys = [f"of-{client_id}-{number}" for number in range(2)]
        for own_key in keys:
            sent = schedule(callback=callback, label=mine)
            reply = await api.send("PUT", f"{base}/schedules/by-key/{own_key}", key=key, json=sent)
            assert reply.status == 201
        crons = [f"of-{client_id}-{number}" for number in range(2)]
        for cron_id in crons:
            reply = await api.send("PUT", f"{base}/crons/{cron_id}", key=key, json=cron(callback=callback, label=mine))
            assert reply.status == 201
            if client_id == OWNER:
                await expand(api, cron_id)
        destinations = [f"to-{client_id}-{number}" for number in range(2)]
        for name in destinations:
            to = {"url": callback["url"], "headers": callback["headers"]}
            reply = await api.send("PUT", f"{base}/destinations/{name}", key=key, json=to)
            assert reply.status == 201
        subscriptions = [f"on-{client_id}-{number}" for number in range(2)]
        for name in subscriptions:
            to = {"destination": destinations[0], "filter": {"label": mine}}
            reply = await api.send("PUT", f"{base}/subscriptions/{name}", json=to)
            assert reply.status == 201
        ids = [one["schedule_id"] for one in schedules]
        if client_id == OWNER:
            for _ in range(2):
                letter = await created(api, key, callback=callback, label=mine)
                await gave_up(api, letter)
                ids.append(str(letter))
        secret = (await api.send("POST", f"{base}/signing-secrets")).json
        asked = {**WINDOW, "states": ["failed"], "action": "report"}
        work = [(await api.send("POST", f"{base}/reconciliations", key=key, json=asked)).json for _ in range(2)]
        return {
            "schedule_id": ids,
            "cron_id": crons,
            "destination": destinations,
            "subscription": subscriptions,
            "schedule_key": keys,
            "secret_id": [secret["secret_id"]],
            "signer": [client_id],
            "ack_token": [f"of-{client_id}"],
            "reconciliation_id": [one["reconciliation_id"] for one in work],
        }

    async def _cursors_of(self, route: Route) -> list[str]:
        """The owner's cursors of a listing."""
        if CURSOR not in route.query or route.access is not Access.CLIENT:
            return []
        names = {parameter.name for parameter in route.query}
        query = {name: value for name, value in {"limit": "1", **WINDOW}.items() if name in names}
        path = _VARIABLE.sub(lambda match: self.names[match[1]][0], route.path)
        reply = await self._as_owner(route.method, path, params=query)
        return [] if (cursor := reply.json["next_cursor"]) is None else [cursor]

    async def _as_owner(self, method: str, path: str, **other: Any) -> Reply:
        reply = await self.api.send(method, path, key=self.owners_key, **other)
        assert reply.status == 200, reply.body
        return reply

    def attempts(self, route: Route) -> st.SearchStrategy[Attempt]:
        """Requests of one route, with own and foreign names in path, query and body."""
        variables = _VARIABLE.findall(route.path)
        for name in variables:
            assert name in self.names, (
                f"{route.path} has a variable part {name} that is new: let `TwoClients.settle` make one for the owner "
                "and one for the thief, and add both to `TwoClients.names`"
            )
        parts = st.fixed_dictionaries({name: st.sampled_from([*self.names[name], UNKNOWN_ID]) for name in variables})
        return st.builds(
            lambda names, query, body: Attempt(
                route=route, path=_VARIABLE.sub(lambda match: names[match[1]], route.path), query=query, body=body
            ),
            parts,
            self._queries(route),
            self._bodies(route),
        )

    def _foreign(self) -> st.SearchStrategy[str]:
        return st.sampled_from([*self.cursors, OWNER, *(one for ids in self.names.values() for one in ids)])

    def _queries(self, route: Route) -> st.SearchStrategy[dict[str, str]]:
        values: dict[str, st.SearchStrategy[str]] = {}
        for parameter in route.query:
            if parameter.name in WINDOW:
                values[parameter.name] = st.just(WINDOW[parameter.name])
            elif parameter.name == CURSOR.name:
                values[parameter.name] = st.sampled_from(self.cursors)
            elif parameter.name == "limit":
                values[parameter.name] = st.just("50")
            else:
                values[parameter.name] = self._foreign()
        return st.fixed_dictionaries({}, optional=values)

    def _bodies(self, route: Route) -> st.SearchStrategy[Any]:
        """The route's example with the owner's names in one or more of its fields."""
        if route.request is None:
            return st.none()
        asked = EXAMPLES[operation_id(route)].request
        base = asked if isinstance(asked, dict) else {}
        foreign: dict[str, st.SearchStrategy[Any]] = {}
        for field_, type_ in get_type_hints(route.request).items():
            name = {"start": "from", "end": "to"}.get(field_, field_)
            if name in WINDOW:
                foreign[name] = st.just(WINDOW[name])
            elif "list" in str(type_):
                foreign[name] = st.lists(self._foreign(), min_size=1, max_size=5)
            elif "str" in str(type_):
                foreign[name] = self._foreign()
        changed = st.fixed_dictionaries({}, optional=foreign)
        return st.one_of(changed, changed.map(lambda other: {**base, **other}))

    async def send(self, attempt: Attempt) -> Reply:
        body = {"json": attempt.body} if attempt.body is not None else {}
        reply = await self.api.send(
            attempt.route.method, attempt.path, key=self.thiefs_key, params=attempt.query, **body
        )
        # A refused request of a client about itself is in its audit log too.
        recorded = attempt.route.scope is Scope.MANAGE and attempt.route.changes
        if recorded or (reply.status < 300 and attempt.route.method in ("PUT", "POST")):
            self.stored += attempt.text
        return reply

    def owners_rows(self) -> Mapping[str, Sequence[Any]]:
        """All stored rows of the owner, in every table."""
        marks = (f"'{OWNER}'", *self.secrets)

        def owners(row: Mapping[str, Any]) -> bool:
            text = repr(row)
            return row.get("client_id") == OWNER or (THIEF not in text and any(mark in text for mark in marks))

        connection = self.api.connection
        return {table: [row for row in connection.rows(table) if owners(row)] for table in connection.tables}


class Stage:
    """Two clients on an event loop of their own, shared by the generated cases of plain tests."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._api: ApiHarness
        self.clients: TwoClients

    def __enter__(self) -> "Stage":
        self._runner.__enter__()
        self.run(self._open())
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.run(self._api.__aexit__(None, None, None))
        finally:
            self._runner.__exit__(None, None, None)

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(what)

    async def _open(self) -> None:
        self._api = await ApiHarness(client_budget_per_second=BUDGET, admin_budget_per_second=BUDGET).__aenter__()
        self.clients = TwoClients(self._api)
        await self.clients.settle()
